"""Is the order that the log claims possible in real time? (chaos.md 2.2, "Why this is cheap")

A log's acknowledgement tells the order (the offset) and values are unique, so linearizability is
one question: does the known order contradict real time? Operations are swept by time:

    append  its offset must be above every offset that was known when it began
    read    its tail must be above every offset known when it began,
            and the value before the tail must have been asked for before the read ended

"Known" at time t: acknowledged, or seen by a read, that completed before t.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome


def find_real_time_violations(history: Sequence[Operation], log: Log) -> list[Anomaly]:
    """Appends and reads of one log that no order of effects can explain. O(n log n)."""
    done = [op for op in history if op.outcome is Outcome.OK]
    by_end = sorted(done, key=lambda op: op.completed)
    found: list[Anomaly] = []
    known, knower = -1, None
    finished = 0
    for op in sorted(done, key=lambda op: op.invoked):
        while finished < len(by_end) and by_end[finished].completed < op.invoked:
            other = by_end[finished]
            reached = other.offset if other.kind is Kind.APPEND else other.offset - 1
            if reached > known:
                known, knower = reached, other
            finished += 1
        reached = op.offset if op.kind is Kind.APPEND else op.offset - 1
        if knower is not None and reached < known:
            found.append(Anomaly(_NAMES[op.kind], _contradiction(op, knower)))
        elif op.kind is Kind.APPEND and reached == known and knower is not None:
            found.append(Anomaly("G0-realtime", _contradiction(op, knower)))
    return found + _reads_of_the_future(history, log)


_NAMES = {Kind.APPEND: "G0-realtime", Kind.READ: "stale-read"}


def _contradiction(op: Operation, knower: Operation) -> str:
    return (
        f"{op.kind.value} of {op.process} began at {op.invoked:.6f} s and got offset {op.offset}, "
        f"but {knower.kind.value} of {knower.process} had ended at {knower.completed:.6f} s "
        f"with offset {knower.offset}"
    )


def _reads_of_the_future(history: Sequence[Operation], log: Log) -> list[Anomaly]:
    """Reads that saw a value before anyone asked for it, or one that the log does not hold."""
    at = dict(log)
    asked = {op.value: op.invoked for op in history if op.kind is Kind.APPEND}
    found = []
    for op in history:
        if op.kind is not Kind.READ or op.outcome is not Outcome.OK or not op.value:
            continue
        if op.value not in asked or asked[op.value] > op.completed:
            found.append(
                Anomaly("unexpected", f"{op.process} read {op.value} before anyone sent it")
            )
        elif _last_before(at, op.offset) != op.value:
            found.append(
                Anomaly(
                    "precommitted-read",
                    f"{op.process} read {op.value} below {op.offset} at {op.completed:.6f} s, "
                    f"the final log has {_last_before(at, op.offset)} there",
                )
            )
    return found


def _last_before(at: dict[int, str], offset: int) -> str | None:
    """The value at the highest offset below `offset`; few offsets are not values."""
    for place in range(offset - 1, -1, -1):
        if place in at:
            return at[place]
    return None


def find_producer_disorder(history: Iterable[Operation]) -> list[Anomaly]:
    """Per process, offsets of acknowledged appends must rise in the order they were sent."""
    last: dict[str, Operation] = {}
    found = []
    for op in sorted(history, key=lambda op: op.invoked):
        if op.kind is not Kind.APPEND or op.outcome is not Outcome.OK:
            continue
        before = last.get(op.process)
        if before is not None and op.offset <= before.offset:
            found.append(
                Anomaly(
                    "nonmonotonic-send",
                    f"{op.process} sent {before.value} then {op.value} and got offsets "
                    f"{before.offset} then {op.offset}",
                )
            )
        last[op.process] = op
    return found


def find_backward_reads(history: Iterable[Operation]) -> list[Anomaly]:
    """Per process, reads never go back, nor behind its own acknowledged appends."""
    reached: dict[str, int] = defaultdict(int)
    found = []
    for op in sorted(history, key=lambda op: op.invoked):
        if op.outcome is not Outcome.OK:
            continue
        tail = op.offset + 1 if op.kind is Kind.APPEND else op.offset
        if op.kind is Kind.READ and tail < reached[op.process]:
            found.append(
                Anomaly(
                    "nonmonotonic-read",
                    f"{op.process} knew of everything below {reached[op.process]} and then read "
                    f"an end of {tail}",
                )
            )
        reached[op.process] = max(reached[op.process], tail)
    return found
