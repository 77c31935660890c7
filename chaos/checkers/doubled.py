"""Values that should not be there: twice, never sent, or refused for certain."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome


def find_doubled(log: Log) -> list[Anomaly]:
    """Every value that stands at more than one offset."""
    first: dict[str, int] = {}
    found = []
    for offset, value in log:
        if value in first:
            found.append(Anomaly("duplicate", f"{value} stands at {first[value]} and at {offset}"))
        else:
            first[value] = offset
    return found


def find_strangers(
    history: Iterable[Operation], log: Log, *, unfinished: Iterable[str] = ()
) -> list[Anomaly]:
    """Finds values in the log that were never sent, or that were refused (`unfinished`: values
    under way)."""
    outcome = {op.value: op.outcome for op in history if op.kind is Kind.APPEND}
    open_values = set(unfinished)
    found = []
    for offset, value in log:
        if value in open_values:
            continue
        if value not in outcome:
            found.append(Anomaly("unexpected", f"{value} at {offset} was never sent"))
        elif outcome[value] is Outcome.FAIL:
            found.append(Anomaly("G1a", f"{value} at {offset} was refused for certain"))
    return found
