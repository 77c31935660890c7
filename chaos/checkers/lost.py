"""Acknowledged and gone: every `ok` append must be in the final log, at the offset it was told.

A repeat may be acknowledged without a place (*unplaced*): the leader no longer has its original,
because old files were deleted or it joined by a state. Its outcome is unknown to every check that
needs a place; while the logs still have their beginning, the message must be in them all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome


def find_lost(history: Iterable[Operation], log: Log) -> list[Anomaly]:
    """Finds lost appends, named by their place: before (prefix), between (middle), or behind the
    kept ones (postfix)."""
    at = dict(log)
    place = {value: offset for offset, value in log}
    first = log[0][0] if log else 0
    last = log[-1][0] if log else -1
    found = []
    for op in history:
        if (
            op.kind is not Kind.APPEND
            or op.outcome is not Outcome.OK
            or at.get(op.offset) == op.value
        ):
            continue
        said = (
            f"{op.value} acknowledged to {op.process} at offset {op.offset}, {op.completed:.6f} s"
        )
        if op.value in place:
            found.append(Anomaly("inconsistent-offsets", f"{said}, stands at {place[op.value]}"))
            continue
        part = "prefix" if op.offset < first else "postfix" if op.offset > last else "middle"
        instead = f"; {at[op.offset]} is there" if op.offset in at else ""
        found.append(Anomaly(f"lost-{part}", f"{said}, is not in the log{instead}"))
    return found


def find_lost_unplaced(
    values: Iterable[str], replicas: Mapping[str, Mapping[str, Log]], begins: int
) -> list[Anomaly]:
    """Appends acknowledged without a place that no queue of any replica holds.

    `begins`: address below which messages were deleted, these maybe among them: none is told then.
    """
    if begins:
        return []
    queues = (log for replica in replicas.values() for log in replica.values())
    held = {value for log in queues for _, value in log}
    return [
        Anomaly("lost-prefix", f"{value}, acknowledged as a repeat, is not in the log")
        for value in values
        if value not in held
    ]
