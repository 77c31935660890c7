"""The clients' view of a run: invoke → ok / fail / info, one JSON object a line (docs/spec/chaos.md
2.1).

    ok      it happened; `offset` says where
    fail    it certainly did not and will not happen
    info    unknown: it may have happened, or still happen (time-out, connection lost, step-down)

    {"process":"c3","kind":"append","value":"c3-17","invoked":4.25,"completed":4.31,
     "outcome":"ok","offset":118}

`level` is where an `ok` append was said to be: on the disks of a majority, or (then it is written
down) in its memory, from which a power failure may take it back (checkers/levels.py). `position`
is its byte address in the replicated log, where that was told: what stands below the log's
beginning has been deleted (checkers/beginnings.py).

    kind     value                offset                              values
    append   one unique value     its place
    read     last visible value   first place that is not filled yet
    poll                          place the consumer asked for        what it got: (place, value) …
    seek                          where the consumer goes on
    commit   consumer group       next place the group wants
    fetch    consumer group       what its position was said to be
    delay    one unique value     -1: where it will stand nobody is told
    half     one unique value     -1: likewise
    half-commit, half-rollback    -1; `value` is the half's

`due` of a delay is the earliest time at which a reader may have it (checkers/delayed.py); of a
half, from when on its group commits it if a broker asks, and only then. The outcome of a half is
what its producer group told a broker (checkers/transactions.py).
`log` names the queue; a history of one queue leaves it out. A process has one operation at a time.
Times are seconds on one clock for all processes.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from chaos.strict import (
    COUNT,
    INDEX,
    NUMBER,
    TEXT,
    Shape,
    check,
    list_of,
    maybe,
    parse,
    row_of,
    shown,
)

INFINITY = float("inf")


class Outcome(enum.Enum):
    """How an operation ended; see the module's text."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Kind(enum.Enum):
    """The kinds of operations; see the module's text."""

    APPEND = "append"
    READ = "read"
    POLL = "poll"
    SEEK = "seek"
    COMMIT = "commit"
    FETCH = "fetch"
    DELAY = "delay"
    HALF = "half"
    HALF_COMMIT = "half-commit"
    HALF_ROLLBACK = "half-rollback"


#: What may succeed without being told a place.
_PLACELESS = (Kind.FETCH, Kind.DELAY, Kind.HALF, Kind.HALF_COMMIT, Kind.HALF_ROLLBACK)


class Level(enum.Enum):
    """Where a majority has an append when it is acknowledged; named as the settings name it."""

    ON_DISK = "majority-on-disk"
    IN_MEMORY = "majority-in-memory"


@dataclass(frozen=True, slots=True)
class Operation:
    """One finished operation; `completed` is infinite for `info`."""

    process: str
    kind: Kind
    value: str
    invoked: float
    completed: float
    outcome: Outcome
    offset: int = -1
    log: str = ""
    values: tuple[tuple[int, str], ...] = ()
    level: Level = Level.ON_DISK
    position: int = -1
    due: float = -1.0

    def __post_init__(self) -> None:
        assert self.invoked <= self.completed
        assert self.outcome is not Outcome.OK or self.offset >= 0 or self.kind in _PLACELESS, (
            "what succeeded has a place; only a group and what waits may have none"
        )

    def to_json(self) -> str:
        """One line of history.jsonl; `completed` is null where it is infinite, later fields only
        where set.
        """
        fields: dict[str, object] = {
            "process": self.process,
            "kind": self.kind.value,
            "value": self.value,
            "invoked": self.invoked,
            "completed": None if self.completed == INFINITY else self.completed,
            "outcome": self.outcome.value,
            "offset": self.offset,
        }
        if self.log:
            fields["log"] = self.log
        if self.values:
            fields["values"] = self.values
        if self.level is not Level.ON_DISK:
            fields["level"] = self.level.value
        if self.position >= 0:
            fields["position"] = self.position
        if self.due >= 0:
            fields["due"] = self.due
        return json.dumps(fields, separators=(",", ":"))


def _is_of(words: type[enum.Enum]) -> Callable[[object], bool]:
    known = frozenset(one.value for one in words)
    return lambda value: type(value) is str and value in known


_MUST = {"process": TEXT, "value": TEXT, "invoked": NUMBER, "completed": maybe(NUMBER)} | {
    "kind": Shape(f"one of {', '.join(kind.value for kind in Kind)}", _is_of(Kind)),
    "outcome": Shape("ok, fail or info", _is_of(Outcome)),
    "offset": INDEX,
}
_MAY = {"log": TEXT, "position": INDEX, "due": NUMBER, "values": list_of(row_of(COUNT, TEXT))} | {
    "level": Shape(f"one of {', '.join(level.value for level in Level)}", _is_of(Level)),
}


def from_json(line: str) -> Operation:
    """Read one line. Raises ValueError when it is no operation."""
    found = check(parse(line), _MUST, _MAY)
    invoked, completed = float(found["invoked"]), found["completed"]
    completed = INFINITY if completed is None else float(completed)
    if completed < invoked:
        raise ValueError(f"it ended at {completed} and began at {invoked}")
    kind, outcome = Kind(found["kind"]), Outcome(found["outcome"])
    if outcome is not Outcome.INFO and completed == INFINITY:
        raise ValueError(
            f"{kind.value} of {shown(found['value'])} is {outcome.value} without an end"
        )
    if outcome is Outcome.OK and found["offset"] < 0 and kind not in _PLACELESS:
        raise ValueError(f"{kind.value} of {shown(found['value'])} succeeded and has no place")
    return Operation(
        found["process"],
        kind,
        found["value"],
        invoked,
        completed,
        outcome,
        found["offset"],
        found.get("log", ""),
        tuple((place, value) for place, value in found.get("values", ())),
        Level(found.get("level", Level.ON_DISK.value)),
        found.get("position", -1),
        float(found.get("due", -1.0)),
    )


def read_history(lines: Iterable[str]) -> Iterator[Operation]:
    """Operations of a history file; empty lines are skipped."""
    for line in lines:
        if line.strip():
            yield from_json(line)
