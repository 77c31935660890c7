"""Is the order that the log claims possible in real time?

Source: docs/spec/chaos.md 2.2, "Why this is cheap".

A log's acknowledgement tells the order (the offset) and values are unique, so linearizability is
one question: does the known order contradict real time? Operations are swept by time:

    append  its offset must be above every offset that was known when it began
    read    its tail must be above every offset known when it began,
            and the value before the tail must have been asked for before the read ended

"Known" at time t: acknowledged, or seen by a read, that completed before t; for a read also what a
poll showed. A poll asks any replica and may lag, so it is not judged itself; but what it showed was
committed. An append whose outcome
is unknown and that the final log holds took effect there; it has no end. One that was acknowledged
in memory has its place from then on, but readers see it later, when it is on disks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Level, Operation, Outcome


def find_real_time_violations(history: Sequence[Operation], log: Log) -> list[Anomaly]:
    """Appends and reads of one log that no order of effects can explain. O(n log n)."""
    ended = [op for op in history if op.outcome is Outcome.OK and op.kind in _NAMES]
    polls = [op for op in history if op.kind is Kind.POLL and op.outcome is Outcome.OK]
    by_end = sorted([*ended, *(op for op in polls if op.values)], key=lambda op: op.completed)
    done = ended + _unknown_appends(history, log)
    found: list[Anomaly] = []
    known, knower = -1, None
    shown, shower = -1, None  # the same for reads
    finished = 0
    for op in sorted(done, key=lambda op: op.invoked):
        while finished < len(by_end) and by_end[finished].completed < op.invoked:
            other = by_end[finished]
            reached = _reached(other)
            if reached > known and other.kind is not Kind.POLL:
                known, knower = reached, other
            if reached > shown and other.level is Level.ON_DISK:
                shown, shower = reached, other
            finished += 1
        appends, reached = op.kind is Kind.APPEND, _reached(op)
        limit, teller = (known, knower) if appends else (shown, shower)
        if teller is not None and reached < limit:
            found.append(Anomaly(_NAMES[op.kind], _contradiction(op, teller)))
        elif appends and reached == limit and teller is not None:
            found.append(Anomaly("G0-realtime", _contradiction(op, teller)))
    return found + _reads_of_the_future(history, log)


_NAMES = {Kind.APPEND: "G0-realtime", Kind.READ: "stale-read"}


def _reached(op: Operation) -> int:
    """The highest offset that an operation tells of."""
    if op.kind is Kind.POLL:
        return max(offset for offset, _ in op.values)
    return op.offset if op.kind is Kind.APPEND else op.offset - 1


def _unknown_appends(history: Sequence[Operation], log: Log) -> list[Operation]:
    """Returns the appends with an unknown outcome, at the offset that the log gives them."""
    unknown = {
        op.value: op for op in history if op.kind is Kind.APPEND and op.outcome is Outcome.INFO
    }
    return [replace(unknown[value], offset=offset) for offset, value in log if value in unknown]


def _contradiction(op: Operation, knower: Operation) -> str:
    return (
        f"{op.kind.value} of {op.process} began at {op.invoked:.6f} s and got offset {op.offset}, "
        f"but {knower.kind.value} of {knower.process} had ended at {knower.completed:.6f} s "
        f"and knew of offset {_reached(knower)}"
    )


def _reads_of_the_future(history: Sequence[Operation], log: Log) -> list[Anomaly]:
    """Finds reads that saw a value before it was sent, or one that the log does not hold."""
    places = [offset for offset, _ in log]
    asked = {op.value: op.invoked for op in history if op.kind is Kind.APPEND}
    found = []
    for op in history:
        if op.kind is not Kind.READ or op.outcome is not Outcome.OK:
            continue
        if op.value and (op.value not in asked or asked[op.value] > op.completed):
            found.append(
                Anomaly("unexpected", f"{op.process} read {op.value} before a client sent it")
            )
        elif (last := _last_before(log, places, op.offset)) != op.value:
            found.append(
                Anomaly(
                    "precommitted-read",
                    f"{op.process} read {op.value or 'nothing'} below {op.offset} at "
                    f"{op.completed:.6f} s, the final log has {last or 'nothing'} there",
                )
            )
    return found


def _last_before(log: Log, places: Sequence[int], offset: int) -> str:
    """The value at the highest offset below `offset`, "" for none."""
    at = bisect_left(places, offset)
    return log[at - 1][1] if at else ""


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
    """Per process, reads never go back, nor behind its own appends on disk."""
    reached: dict[str, int] = defaultdict(int)
    found = []
    for op in sorted(history, key=lambda op: op.invoked):
        if op.outcome is not Outcome.OK or op.kind not in _NAMES:
            continue
        if op.level is Level.IN_MEMORY:
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
