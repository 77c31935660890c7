"""Checks the order of each consumer's messages: none left out, none twice, never back.

    seek 5 ─► poll 5: (5,a) (6,b) ─► poll 7: (9,c)      7 and 8 hold no message: fine
                                  ─► poll 7: (6,b)      nonmonotonic-poll
                                  ─► poll 7: (9,c)      poll-skip, when (8,x) is in the log

A consumer may go anywhere after a seek (its own, or a rebalance; one that a replica asked for is
judged by jumps.py). Names with `int-` tell of a
contradiction within one answer, the others of one between answers (docs/spec/chaos.md 2.2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome


def find_consumer_disorder(history: Iterable[Operation], log: Log) -> list[Anomaly]:
    """Polls of one queue that skip or repeat, per consumer in the order of its operations."""
    places = [offset for offset, _ in log]
    following: dict[str, int] = {}
    found: list[Anomaly] = []
    for op in sorted(history, key=lambda op: op.invoked):
        if op.outcome is not Outcome.OK:
            continue
        if op.kind is Kind.SEEK:
            following[op.process] = op.offset
        elif op.kind is Kind.POLL and op.values:
            wanted = following.get(op.process, op.offset)
            found += _within(op, places)
            found += _between(op, wanted, places)
            following[op.process] = max(offset for offset, _ in op.values) + 1
    return found


def _between(op: Operation, wanted: int, places: list[int]) -> list[Anomaly]:
    first = op.values[0][0]
    if first < wanted:
        return [
            Anomaly(
                "nonmonotonic-poll",
                f"{op.process} had everything below {wanted} and then got offset {first}",
            )
        ]
    skipped = _messages(places, wanted, first)
    if skipped:
        return [
            Anomaly(
                "poll-skip",
                f"{op.process} wanted {wanted} and got {first}: {skipped} messages left out, "
                f"the first at {places[bisect_left(places, wanted)]}",
            )
        ]
    return []


def _within(op: Operation, places: list[int]) -> list[Anomaly]:
    found = []
    for (before, _), (after, _) in pairwise(op.values):
        said = f"one answer to {op.process} holds offset {before} and then {after}"
        if after <= before:
            found.append(Anomaly("int-nonmonotonic-poll", said))
        elif skipped := _messages(places, before + 1, after):
            found.append(Anomaly("int-poll-skip", f"{said}: {skipped} messages left out"))
    return found


def _messages(places: list[int], first: int, end: int) -> int:
    """How many messages the log holds at `first`..`end` - 1."""
    return bisect_left(places, end) - bisect_left(places, first)
