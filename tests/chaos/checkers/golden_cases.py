"""Reads the golden anomalies (golden/README.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chaos.checkers.anomaly import Log
from chaos.checkers.jumps import Begins, find_wrong_jumps
from chaos.checkers.levels import Blackout
from chaos.checkers.queues import judge_queues
from chaos.checkers.verdict import Verdict, Word, count
from chaos.history import INFINITY, Kind, Level, Operation, Outcome

FOLDER = Path(__file__).parent / "golden"


@dataclass
class Case:
    """One history, the final logs, and the names it must be flagged under."""

    name: str
    expected: frozenset[str]
    history: list[Operation] = field(default_factory=list)
    replicas: dict[str, dict[str, Log]] = field(default_factory=dict)
    blackouts: list[Blackout] = field(default_factory=list)
    begins: int = 0
    everything_read: bool = False
    told: list[Begins] = field(default_factory=list)

    @property
    def is_of_live_runs(self) -> bool:
        """Whether a judge must know of appends in memory, or of logs without their beginning."""
        early = any(op.level is Level.IN_MEMORY for op in self.history)
        return early or bool(self.blackouts or self.begins)

    def judged(self) -> Verdict:
        """By the checkers, told all that the case tells."""
        return judge_queues(
            self.history,
            self.replicas,
            acked_min=0,
            everything_read=self.everything_read,
            blackouts=self.blackouts,
            begins=self.begins,
        )

    def judged_as_a_run(self) -> Verdict:
        """With what nodes told while it ran."""
        found = self.judged()
        anomalies = [*found.anomalies, *find_wrong_jumps(self.history, self.told)]
        return count(Word.INVALID if anomalies else Word.VALID, found.acked, anomalies)


def cases(folder: Path = FOLDER) -> list[Case]:
    """Every case of every file of a folder, in order."""
    found: list[Case] = []
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text().splitlines():
            words = line.split()
            if not words or words[0] == "#":
                continue
            if words[0] == "=":
                found.append(Case(words[1], frozenset(words[2:]) - {"valid"}))
            elif words[0] == "everything-read":
                found[-1].everything_read = True
            else:
                _add(found[-1], words)
    return found


def _add(case: Case, words: list[str]) -> None:
    if words[0] == "begins":
        case.begins = int(words[1])
        return
    if words[0] == "begins-at":
        case.told.append(Begins(float(words[2]), words[1], int(words[3])))
        return
    if words[0] == "blackout":
        case.blackouts.append(Blackout(float(words[1]), float(words[2])))
        return
    if words[0] == "log":
        queue, name = _split(words[1])
        case.replicas.setdefault(name, {})[queue] = _pairs(words[2:])
        return
    queue, process = _split(words[0])
    case.history.append(_operation(process, queue, words[1], words[2:]))


def _operation(process: str, queue: str, kind: str, rest: list[str]) -> Operation:
    if kind == "append":
        level = Level.IN_MEMORY if rest[-1] == "memory" else Level.ON_DISK
        position = next((int(word[1:]) for word in rest if word.startswith("@")), -1)
        rest = [word for word in rest if word != "memory" and not word.startswith("@")]
        value, begin, end, outcome, *place = rest
        return Operation(
            process,
            Kind.APPEND,
            value,
            float(begin),
            INFINITY if end == "-" else float(end),
            Outcome(outcome),
            int(place[0]) if place else -1,
            queue,
            level=level,
            position=position,
        )
    outcome = Outcome.OK
    if rest[-1] == "info":
        outcome = Outcome(rest.pop())
    if kind == "poll":
        begin, end, *values = rest
        pairs = tuple(_pairs(values))
        return Operation(
            process,
            Kind.POLL,
            "",
            float(begin),
            float(end),
            outcome,
            pairs[0][0],
            queue,
            pairs,
        )
    offset, value = (rest[1], rest[0]) if kind in ("commit", "fetch") else (rest[0], "")
    if kind == "read":
        value = "" if rest[1] == "-" else rest[1]
    begin, end = rest[-2:]
    return Operation(
        process, Kind(kind), value, float(begin), float(end), outcome, int(offset), queue
    )


def _split(word: str) -> tuple[str, str]:
    queue, slash, name = word.rpartition("/")
    return (queue, name) if slash else ("", word)


def _pairs(words: list[str]) -> list[tuple[int, str]]:
    return [(int(offset), value) for offset, value in (word.split(":") for word in words)]
