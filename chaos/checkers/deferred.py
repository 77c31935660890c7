"""Messages that wait in a broker before readers see them: delayed messages, and halves of
transactions.

    sent ── waits, shown to nobody ── due, or committed ──► its queue, once, at a place of its own

For the checks of a queue such a message is an append of unknown outcome: it may stand in the log
once or not at all, behind its send; twice is `duplicate`, refused and there is `G1a`. When it must
be there, and when not yet, is for `delayed.py` and `transactions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import INFINITY, Kind, Operation, Outcome

_SENDS = (Kind.DELAY, Kind.HALF)
_ENDS = (Kind.HALF_COMMIT, Kind.HALF_ROLLBACK)


class Span(NamedTuple):
    """From when to when, in seconds of the run."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Times:
    """The times by which delayed and transactional messages must have arrived; seconds of the run.

    Attributes:
        healed: from then on no fault was on.
        watched: readers looked until then.
        seconds_max: from due, or from healed if that is later, until readers are shown it.
        early_max: readers' and brokers' clocks may differ by so much.
        clocks: when a broker's clock may have been wrong (R15: no safety rests on it).
    """

    healed: float
    watched: float
    seconds_max: float
    early_max: float = 0.1
    clocks: Sequence[Span] = ()

    def is_clock_sure(self, began: float, ended: float) -> bool:
        """Whether every broker's clock was right from then to then."""
        return not any(span.began <= ended and began <= span.ended for span in self.clocks)

    def latest(self, due: float) -> float:
        """Returns the latest time at which readers must have got a message that is due at `due`."""
        return max(due, self.healed) + self.seconds_max


@dataclass(frozen=True, slots=True)
class Shown:
    """The messages that became visible.

    Attributes:
        first: value → when the first poll that had it ended.
        held: values in the final log of any replica; where they differ, others say so.
        passed: queue → when a reader last went on behind what was deleted.
        read: whether a final log was read; of a run that died none was, so nothing is known gone.
    """

    first: Mapping[str, float]
    held: frozenset[str]
    passed: Mapping[str, float]
    read: bool = True

    def has(self, value: str) -> bool:
        """Whether it became visible: it is in a log, or was before it was deleted."""
        return value in self.held or value in self.first

    def may_be_deleted(self, op: Operation) -> bool:
        """Whether it may have come and been deleted before any reader was shown it."""
        return self.passed.get(op.log, -1.0) >= op.invoked


@dataclass(frozen=True, slots=True)
class Found:
    """`excused`: messages not fully judged because a clock was wrong; `open`: messages that readers
    did not wait for long enough."""

    anomalies: tuple[Anomaly, ...]
    sent: int
    arrived: int
    excused: int
    open: int


def never_shown(op: Operation, times: Times) -> Anomaly:
    """Returns the anomaly for a message that is in a log although readers that waited long enough
    did not get it."""
    said = (
        f"{op.value} of {op.process} stands in the log; readers watched until {times.watched:.6f}"
    )
    return Anomaly("never-read", f"{op.log}: {said} s and were not shown it")


def as_appends(history: Iterable[Operation]) -> Iterator[Operation]:
    """The history for checks that know appends only; how halves ended is left out."""
    return (_append(op) if op.kind in _SENDS else op for op in history if op.kind not in _ENDS)


def _append(op: Operation) -> Operation:
    if op.outcome is Outcome.FAIL:
        return replace(op, kind=Kind.APPEND)
    return replace(op, kind=Kind.APPEND, outcome=Outcome.INFO, completed=INFINITY, offset=-1)


def shown(
    history: Iterable[Operation], replicas: Iterable[Mapping[str, Log]], begins: int
) -> Shown:
    """Collects the messages that readers got and that the logs hold; `begins`: address below which
    messages were deleted."""
    first: dict[str, float] = {}
    passed: dict[str, float] = {}
    for op in history:
        if op.outcome is not Outcome.OK:
            continue
        if op.kind is Kind.POLL:
            for _, value in op.values:
                first[value] = min(first.get(value, op.completed), op.completed)
        elif op.kind is Kind.SEEK and begins:
            passed[op.log] = max(passed.get(op.log, 0.0), op.completed)
    ends = list(replicas)
    held = frozenset(value for end in ends for log in end.values() for _, value in log)
    return Shown(first, held, passed, read=bool(ends))
