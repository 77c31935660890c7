"""Checks that an offset has one value in all sources (acknowledgements, polls, every replica's
log), and that a broker's queues have no offset without a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome


def find_inconsistent_offsets(
    history: Iterable[Operation], logs: Mapping[str, Log]
) -> list[Anomaly]:
    """Offsets of one queue at which two different values were ever told, each once. O(n + m)."""
    told: dict[int, tuple[str, str]] = {}
    found: dict[int, Anomaly] = {}

    def tell(offset: int, value: str, who: str) -> None:
        first = told.setdefault(offset, (value, who))
        if first[0] != value and offset not in found:
            found[offset] = Anomaly(
                "inconsistent-offsets",
                f"offset {offset} is {first[0]} for {first[1]} and {value} for {who}",
            )

    for name in sorted(logs):
        for offset, value in logs[name]:
            tell(offset, value, f"replica {name}")
    for op in history:
        if op.outcome is not Outcome.OK:
            continue
        if op.kind is Kind.APPEND:
            tell(op.offset, op.value, f"the acknowledgement to {op.process}")
        elif op.kind is Kind.POLL:
            for offset, value in op.values:
                tell(offset, value, f"a poll of {op.process}")
    return list(found.values())


def find_holes(log: Log, begins: int) -> list[Anomaly]:
    """Offsets of a broker's queue between the first and the last that no message has. O(n).

    A queue counts its messages: each one's offset is that of the one before and 1. Only logs that
    lost their beginning (`begins` above 0) have queues that do not begin at 0.
    """
    found, wanted = [], log[0][0] if log and begins else 0
    for offset, value in log:
        if offset != wanted:
            said = f"{value} stands at offset {offset}, where {wanted} comes next"
            found.append(Anomaly("offset-hole", said))
        wanted = offset + 1
    return found
