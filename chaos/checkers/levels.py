"""Messages acknowledged in memory: the cases in which a power failure may take them back, and those
in which it may not (R22).

    on disk      is in the final log, whatever happened
    in memory    likewise, but for a *blackout*: power cuts that left no majority which had been in
                 service all the time; it may take back what was acknowledged last

    ok m1 ── ok d1 ── ok m2 ──┤ blackout ├── ok m3         m…: in memory, d…: on disk
       kept     kept     may go                kept

Only the end of a log goes: what was acknowledged before something began that is still there (m1
before d1, in whatever queue: all queues are one log), or long before the cut, had been synced.

An append that was taken back has an unknown outcome for all other checks: its offset was given away
again, and a consumer that polled it has seen a message that is gone (`precommitted-read`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from chaos.checkers.anomaly import Log
from chaos.history import INFINITY, Kind, Level, Operation, Outcome

#: A sync begins at once and takes ms; several seconds on a disk that others keep busy.
UNSYNCED_SECONDS_MAX = 5.0
#: A node that was hit by a fault may be behind for so long after it ended.
BEHIND_SECONDS_MAX = 1.0


class Blackout(NamedTuple):
    """A span, in seconds, in which entries that a majority had only in memory may have been
    lost.
    """

    began: float
    ended: float


class Outage(NamedTuple):
    """Nodes that a fault hit, until they were back; `cut`: when their power went, if it did."""

    began: float
    ended: float
    nodes: frozenset[str]
    cut: Blackout | None = None


def find_blackouts(outages: Sequence[Outage], node_count: int) -> list[Blackout]:
    """Power cuts of a majority, or of nodes that are one with those out of service at the time."""
    found = []
    for blow in outages:
        if blow.cut is None:
            continue
        hit = frozenset[str]().union(*(one.nodes for one in outages if _meet(one, blow)))
        if 2 * len(hit) > node_count:
            found.append(blow.cut)
    return sorted(found)


def _meet(one: Outage, other: Outage) -> bool:
    return (
        one.began <= other.ended + BEHIND_SECONDS_MAX
        and other.began <= one.ended + BEHIND_SECONDS_MAX
    )


def take_back(
    history: Sequence[Operation],
    replicas: Iterable[Mapping[str, Log]],
    blackouts: Sequence[Blackout],
) -> tuple[Sequence[Operation], list[Operation]]:
    """Returns (the history with appends as unknown that were rightly taken back, these appends as
    they were recorded).

    `replicas`: queue → final log of each. What one of them still holds was not taken back.
    """
    gone = _in_memory_and_gone(history, replicas) if blackouts else []
    if not gone:
        return history, []
    missing = {id(op) for op in gone}
    kept = [
        op
        for op in history
        if op.kind is Kind.APPEND and op.outcome is Outcome.OK and id(op) not in missing
    ]
    taken = {id(op) for cut in blackouts for op in _taken_by(cut, gone, kept)}
    changed = [_unknown(op) if id(op) in taken else op for op in history]
    return changed, [op for op in gone if id(op) in taken]


def as_unknown(history: Iterable[Operation]) -> list[Operation]:
    """For judges that know no levels: whether an append in memory took effect, the log tells."""
    return [_unknown(op) if _is_early(op) else op for op in history]


def _is_early(op: Operation) -> bool:
    return op.level is Level.IN_MEMORY and op.outcome is Outcome.OK


def _unknown(op: Operation) -> Operation:
    return replace(op, outcome=Outcome.INFO, completed=INFINITY, offset=-1, level=Level.ON_DISK)


def _in_memory_and_gone(
    history: Iterable[Operation], replicas: Iterable[Mapping[str, Log]]
) -> list[Operation]:
    early = [op for op in history if _is_early(op)]
    if not early:
        return []
    held = {value for replica in replicas for log in replica.values() for _, value in log}
    return [op for op in early if op.value not in held]


def _taken_by(
    cut: Blackout, gone: Iterable[Operation], kept: Iterable[Operation]
) -> list[Operation]:
    """Returns the appends of `gone` that this blackout may have taken: those that `kept` does not
    prove to have been synced.

    `kept`: acknowledged appends that are there, or that must be.
    """
    known_since = float("-inf")
    ends: dict[str, int] = {}
    for op in kept:
        if op.completed <= cut.began:
            known_since = max(known_since, op.invoked)
            ends[op.log] = max(ends.get(op.log, -1), op.offset)
    return [
        op
        for op in gone
        if op.invoked <= cut.ended
        and op.completed >= max(known_since, cut.began - UNSYNCED_SECONDS_MAX)
        and op.offset > ends.get(op.log, -1)
    ]
