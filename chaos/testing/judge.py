"""Did a run go as one machine would, alone, without faults?

    every node applied the same commands with the same numbers, each once
    these are the commands of the log, each with its number, as the judge reads it (log_book.py)
    what was answered was applied, with that result; what was certainly refused was not
    each result that is kept for a command that comes again is that command's own
    what ended before another thing began stands before it, reads too
    a fresh machine that applies the log gives every result and every state; a model gives every
    result and every finding of a read

The log's order is the witness of linearizability: all answers follow from one order of the commands
that respects real time. A read has a place in it, too: behind the entry that its node had applied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from chaos.testing.log_book import LogBook
from chaos.testing.machine_node import MachineNode
from chaos.testing.noted import Applied, apply_bytes
from chaos.testing.subject import Subject
from dledger.errors import CommandRefused, DledgerError, Outcome
from dledger.machine.sessions import NOT_KEPT
from dledger.machine.state_machine import (
    Entry,
    ReplicatedStateMachine,
    bytes_of,
    has_checksum,
)

#: In front of a result that is kept; the machine's own bytes say whether it was refused.
_DONE = b"\0"


class MachineViolation(AssertionError):
    """A run that no correct machine and log would give; the text names seed and finding."""


@dataclass(slots=True)
class Call:
    """One command of a client; `ended` is None while it has no answer, for ever if it got none."""

    data: bytes
    node: str
    begun: float
    ended: float | None = None
    result: bytes | None = None
    error: DledgerError | None = None


@dataclass(slots=True)
class Read:
    """One question of a client; `index`: its node had applied so much when it looked; once `ended`.

    `is_local`: it may miss what others have done.
    """

    question: Any
    node: str
    is_local: bool
    begun: float
    ended: float | None = None
    index: int = -1
    finding: Any = None


class Judge:
    """The judge of one run. Raises MachineViolation."""

    def __init__(
        self,
        subject: Subject,
        seed: int,
        nodes: Sequence[MachineNode],
        calls: Sequence[Call],
        reads: Sequence[Read],
        book: LogBook,
    ) -> None:
        self._subject, self._seed, self._nodes, self._book = subject, seed, nodes, book
        self._calls = calls
        self._reads = [read for read in reads if read.ended is not None]

    def applied(self) -> int:
        """How many commands were applied, if all is well."""
        log: dict[int, Applied] = {}
        for node in self._nodes:
            for begun_behind, applied in node.lives:
                self._check_process(node.id, begun_behind, applied, log)
        order = [log[index] for index in sorted(log)]
        place: dict[bytes, Applied] = {}
        for one in order:
            if one.data in place:
                self._violation("applied-twice", f"entries {place[one.data].index} and {one.index}")
            place[one.data] = one
        self._check_log(order)
        fresh = self._check_results(order)
        self._check_answers(place)
        self._check_order(place)
        self._check_states(fresh)
        return len(order)

    def _check_process(
        self, name: str, begun_behind: int, applied: Sequence[Applied], log: dict[int, Applied]
    ) -> None:
        last = begun_behind
        for one in applied:
            if one.index <= last:
                self._violation("applied-twice", f"{name}: entry {one.index} behind {last}")
            last = one.index
            known = log.setdefault(one.index, one)
            if known != one:
                self._violation("nodes-differ", f"{name} at entry {one.index}: {one} and {known}")

    def _check_log(self, order: Sequence[Applied]) -> None:
        """All nodes applied the commands of the log, each with its number."""
        wanted = self._book.commands()
        for want, one in itertools.zip_longest(wanted, order):
            if one is None or want is None or want[:2] != (one.index, one.data):
                self._violation("not-the-logs", f"{one} was applied and the log has {want}")
        self._check_kept({want[2:]: one for want, one in zip(wanted, order, strict=True)})

    def _check_kept(self, applied: dict[tuple[int, int], Applied]) -> None:
        """A command that comes again gets its own result, of those that a node still keeps."""
        for node in self._nodes:
            assert node.process is not None
            sessions = node.process.applier.sessions
            for session in {session for session, _ in applied}:
                for sequence, kept in sessions.results(session).items():
                    own = applied.get((session, sequence))
                    if own is not None and kept not in (_DONE + own.result, NOT_KEPT):
                        self._violation(
                            "wrong-result-kept",
                            f"{node.id} keeps {kept!r} for command {sequence} of session "
                            f"{session}: {own}",
                        )

    def _check_results(self, order: Sequence[Applied]) -> ReplicatedStateMachine[Any, Any]:
        """Apply all of it again, and ask all questions again at their places."""
        subject = self._subject
        fresh = subject.make()
        model = None if subject.model is None else subject.model()
        reads = iter(sorted(self._reads, key=lambda read: read.index))
        waiting = next(reads, None)
        for one in [*order, None]:
            while waiting is not None and (one is None or waiting.index < one.index):
                expected = (
                    subject.look(fresh, waiting.question)
                    if model is None
                    else model.look(waiting.question)
                )
                if waiting.finding != expected:
                    self._violation("wrong-read", f"{waiting} instead of {expected!r}")
                waiting = next(reads, None)
            if one is None:
                break
            answer = apply_bytes(fresh, one.index, one.time_ms, one.data)
            if answer != one.result:
                self._violation(
                    "wrong-result", f"entry {one.index}: {one.result!r} instead of {answer!r}"
                )
            if model is not None:
                command = fresh.decode(one.data[4:])
                try:
                    result = model.apply(Entry(one.index, 1, one.time_ms, command))
                    wanted = b"D" + fresh.encode_result(result)
                except CommandRefused:
                    wanted = b"R"
                if (one.result[:1] if wanted == b"R" else one.result) != wanted:
                    self._violation(
                        "not-the-models",
                        f"{command} at entry {one.index}: {one.result!r} instead of {wanted!r}",
                    )
        return fresh

    def _check_answers(self, place: dict[bytes, Applied]) -> None:
        for call in self._calls:
            applied = place.get(call.data)
            if call.result is not None:
                if applied is None:
                    self._violation("lost", f"{call} was answered and is not in the log")
                elif applied.result != call.result:
                    self._violation("wrong-answer", f"{call} and {applied}")
            elif call.error is not None and call.error.outcome is Outcome.NOT_DONE and applied:
                self._violation("done-all-the-same", f"{call} and {applied}")

    def _check_order(self, place: dict[bytes, Applied]) -> None:
        """A call that ended before another began stands before it; reads stand between entries."""
        reads = [read for read in self._reads if not read.is_local]
        ended = sorted(_ended(self._calls, reads, place))
        begun = sorted(
            [
                *((call.begun, 2 * place[call.data].index, "") for call in self._calls
                  if call.data in place),
                *((read.begun, 2 * read.index + 1, str(read)) for read in reads),
            ]
        )  # fmt: skip
        at, highest = 0, -2
        for when, stands, read in begun:
            while at < len(ended) and ended[at][0] < when:
                highest = max(highest, ended[at][1])
                at += 1
            if stands < highest:
                behind = highest // 2
                if read:
                    self._violation("stale-read", f"{read} begun after entry {behind} was known")
                self._violation("order", f"entry {stands // 2} begun after {behind} was known")

    def _check_states(self, fresh: ReplicatedStateMachine[Any, Any]) -> None:
        expected = state_of(fresh)
        for node in self._nodes:
            assert node.process is not None
            found = state_of(node.process.machine.plain)
            if found != expected:
                self._violation("states-differ", f"{node.id}: {found!r} instead of {expected!r}")
            self._check_checksum(node, fresh)

    def _check_checksum(self, node: MachineNode, fresh: ReplicatedStateMachine[Any, Any]) -> None:
        """Equal states have equal checksums, whichever way each was come to."""
        assert node.process is not None
        plain = node.process.machine.plain
        if has_checksum(fresh) and (found := plain.checksum()) != (of_fresh := fresh.checksum()):
            self._violation("checksums-differ", f"{node.id}: {found} instead of {of_fresh}")

    def _violation(self, name: str, detail: str) -> NoReturn:
        raise MachineViolation(f"seed {self._seed}: {name}: {detail}")


def _ended(
    calls: Sequence[Call], reads: Sequence[Read], place: dict[bytes, Applied]
) -> Iterator[tuple[float, int]]:
    for call in calls:
        if call.ended is not None and call.result is not None:
            yield call.ended, 2 * place[call.data].index
    for read in reads:
        assert read.ended is not None
        yield read.ended, 2 * read.index + 1


def state_of(machine: ReplicatedStateMachine[Any, Any]) -> bytes:
    """The machine's snapshot, as bytes."""
    return bytes_of(machine.snapshot())
