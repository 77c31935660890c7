"""Checks readers that a broker sent on to a later position: only deleted messages may be skipped.

    messages     0 … 39   40 … 99   100 …      deleted: up to 40 at 3 s, up to 100 at 9 s
    seek 40      at 3.4 s                      fine
    seek 100     at 3.4 s                      poll-skip: 40 … 99 still stood everywhere

A replica that no longer has what a consumer asks for tells it where to go on, and the history has
that as a seek. Nodes tell from time to time where their logs begin; what one of them tells at its
first look after the seek, or told before, may have been deleted when the seek was made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly
from chaos.history import Kind, Operation, Outcome


class Begins(NamedTuple):
    """Where one node's log began at some time: the address of its first byte."""

    time: float
    node: str
    address: int


def find_wrong_jumps(history: Sequence[Operation], told: Sequence[Begins]) -> list[Anomaly]:
    """Seeks over acknowledged messages that no replica can have deleted by then. O(n log n)."""
    deleted = _Deleted(told)
    places = _addresses(history)
    found = []
    for op in history:
        if op.kind is not Kind.SEEK or op.outcome is not Outcome.OK:
            continue
        rows = places.get(op.log, [])
        at = bisect_right(rows, op.offset - 1, key=itemgetter(0)) - 1
        if at < 0:
            continue
        (place, address), begins = rows[at], deleted.up_to(op.completed)
        if address >= begins:
            said = f"{op.process} was sent on to {op.offset} of {op.log} at {op.completed:.6f} s"
            found.append(
                Anomaly(
                    "poll-skip",
                    f"{said}, over the message at {place}: it stands at address {address}, and "
                    f"logs began at {begins} by then",
                )
            )
    return found


def _addresses(history: Iterable[Operation]) -> dict[str, list[tuple[int, int]]]:
    """Queue → (place, address) of its acknowledged messages, in order."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for op in history:
        if op.kind is Kind.APPEND and op.outcome is Outcome.OK and op.position >= 0:
            rows[op.log].append((op.offset, op.position))
    return {log: sorted(found) for log, found in rows.items()}


class _Deleted:
    """The highest beginning of a log that any node may have had at a time, from the beginnings that
    nodes reported."""

    def __init__(self, told: Iterable[Begins]) -> None:
        self._of: dict[str, tuple[list[float], list[int]]] = {}
        rows: dict[str, list[Begins]] = defaultdict(list)
        for row in sorted(told):
            rows[row.node].append(row)
        for node, found in rows.items():
            times = [row.time for row in found]
            self._of[node] = times, list(accumulate((row.address for row in found), max))

    def up_to(self, time: float) -> int:
        """Returns the highest beginning at `time`. Each node's first report after `time` counts
        too, because it may have been true a moment before."""
        highest = 0
        for times, addresses in self._of.values():
            highest = max(highest, addresses[min(bisect_right(times, time), len(times) - 1)])
        return highest
