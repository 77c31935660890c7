"""Restores the deleted beginning of a log for the checkers: old files are deleted, and nodes that
joined by a snapshot never had them.

    address   0 ……………………… begins ………………………… end
    log       deleted        what every replica still has      compared, judged as ever
    history   a, b, c        d, e, f

Nobody can look up what stood before the beginning. It is put back as it was told: acknowledged at
an address below it, polled, or read at a place before the first that is left. So what clients say
of it must agree with itself, and all that is said of the rest is judged against the logs alone. An
acknowledged message at an address that the log has, or at one that nobody told, must be in it.

What was put back proves nothing by itself: a message that was lost and then "deleted" would be put
back as well. So it counts as kept only when somebody was shown it; the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.checkers.anomaly import Log
from chaos.history import Kind, Operation, Outcome


def with_deleted(history: Iterable[Operation], log: Log, begins: int) -> Log:
    """Returns a queue's final log with the messages put back that were deleted before address
    `begins`. O(n log n).

    `log`: without the messages below `begins` that a replica may still have.
    """
    if not begins:
        return log
    operations = [op for op in history if op.outcome is Outcome.OK]
    deleted = [op for op in operations if op.kind is Kind.APPEND and 0 <= op.position < begins]
    last = max((op.offset for op in deleted), default=-1)
    first = log[0][0] if log else last + 1
    told = {op.offset: op.value for op in deleted if op.offset < first}
    for offset, value in _seen(operations):
        if offset < first:
            told.setdefault(offset, value)
    return [*sorted(told.items()), *log]


def _seen(operations: Iterable[Operation]) -> Iterator[tuple[int, str]]:
    """Yields (offset, value) of each message that a reader got; a read of a queue's end shows the
    value right before it."""
    for op in operations:
        if op.kind is Kind.POLL:
            yield from op.values
        elif op.kind is Kind.READ and op.value:
            yield op.offset - 1, op.value


def find_unread(history: Iterable[Operation], begins: int) -> list[Operation]:
    """Acknowledged appends below address `begins` that no poll and no read ever showed. O(n).

    Nobody can tell any more whether they were lost: neither a log nor a reader has them.
    """
    if not begins:
        return []
    operations = [op for op in history if op.outcome is Outcome.OK]
    seen = {(op.log, offset, value) for op in operations for offset, value in _seen((op,))}
    return [
        op
        for op in operations
        if op.kind is Kind.APPEND and 0 <= op.position < begins
        if (op.log, op.offset, op.value) not in seen
    ]
