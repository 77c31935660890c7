"""Consecutive configurations share a quorum, and one change is under way at most.

Raft dissertation 4.1: with one voter added or removed at a time every majority of the old
configuration overlaps every majority of the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import nextafter
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.elections import Seen


class Configuration(NamedTuple):
    """A configuration entry at index `at`: its voters, and when it was appended and committed.

    `mute`: those of the voters that are in the size of the quorum and never counted.
    """

    at: int
    voters: frozenset[str]
    appended: float
    committed: float
    mute: frozenset[str] = frozenset()


class Change(NamedTuple):
    """A configuration entry as a log has it; see `Configuration`."""

    at: int
    voters: frozenset[str]
    mute: frozenset[str] = frozenset()


def find_membership_splits(configurations: Iterable[Configuration]) -> list[Anomaly]:
    """Changes of one group, in log order, that could have let two majorities decide."""
    rows = sorted(configurations)
    found = []
    for before, after in pairwise(rows):
        if not _overlap(before, after):
            found.append(
                Anomaly(
                    "membership-split",
                    f"entries {before.at} and {after.at}: a majority of "
                    f"{_names(before.voters)} and one of {_names(after.voters)} have nobody in "
                    "common",
                )
            )
        if after.appended < before.committed:
            found.append(
                Anomaly(
                    "two-changes",
                    f"entry {after.at} was appended at {after.appended:.6f} s, while the "
                    f"change at {before.at} was committed only at {before.committed:.6f} s",
                )
            )
    return found


def _overlap(one: Configuration, other: Configuration) -> bool:
    """Does every majority of `one` share a node with every majority of `other`?

    Two majorities can avoid each other when those of their nodes that both sets have, as few as
    possible, fit beside each other into what both have.
    """
    common = (one.voters - one.mute) & (other.voters - other.mute)
    return _from_common(one, other) + _from_common(other, one) > len(common)


def _from_common(one: Configuration, other: Configuration) -> int:
    """Fewest nodes that count in both which a majority of `one` needs."""
    alone = (one.voters - one.mute) - (other.voters - other.mute)
    return max(len(one.voters) // 2 + 1 - len(alone), 0)


def _names(voters: Iterable[str]) -> str:
    return "{" + ", ".join(sorted(voters)) + "}"


def find_early_changes(told: Iterable[Seen]) -> list[Anomaly]:
    """Finds membership changes that a leader began too early, from the nodes' own traces.

    Name: `two-changes`. Behind its no-op a leader's log holds what it appended itself. One that has
    committed in its term has one uncommitted change in its log at most, and it begins none before
    it has: what former leaders left may still come to count.
    """
    found: dict[tuple[int, int], Anomaly] = {}
    for one in told:
        if not one.leads or one.changing is None or one.no_op is None:
            continue
        where = f"{one.node}, leader of term {one.term}, at {one.time:.6f} s"
        ready = one.no_op <= one.commit
        if ready and len(one.changing) > 1:
            said = f"{where}: entries {', '.join(map(str, one.changing))} change the group at once"
        elif not ready and one.changing and one.changing[-1] > one.no_op:
            said = f"{where}: entry {one.changing[-1]} changes the group before {one.no_op}, its "
            said += "first, is committed"
        else:
            continue
        found.setdefault((one.term, one.changing[-1]), Anomaly("two-changes", said))
    return list(found.values())


def untold(changes: Iterable[Change], told: Iterable[Seen]) -> list[int]:
    """Returns the indexes of configurations in the final logs that no leader's trace has. The
    initial configuration does not count."""
    known = {one.configuration for one in told if one.leads and one.changing is not None}
    return [one.at for one in sorted(changes) if one.at >= 0 and one.at not in known]


def with_times(changes: Iterable[Change], trace: Sequence[Seen]) -> list[Configuration]:
    """Returns the configurations of a log with times from the nodes' traces, in the order of the
    log.

    `appended`: when one was seen first. `committed`: just behind the last time at which a leader
    that had committed in its own term, so that it knew, had not committed it though the next one
    was in its log already; nobody can tell from samples when it was, and this alone is wrong.
    """
    rows = sorted(changes)
    found = []
    for n, (at, voters, mute) in enumerate(rows):
        following = rows[n + 1][0] if n + 1 < len(rows) else float("inf")
        had = (one.time for one in trace if _newest(one) >= at)
        open_at = max((one.time for one in trace if _open(one, at, following)), default=None)
        committed = float("-inf") if open_at is None else nextafter(open_at, float("inf"))
        found.append(Configuration(at, voters, min(had, default=float("inf")), committed, mute))
    return found


def _open(one: Seen, at: int, following: float) -> bool:
    """Does this leader have the change at `at` uncommitted, and the following one beside it?"""
    if not one.leads or one.no_op is None:
        return False
    return one.no_op <= one.commit < at < following <= _newest(one)


def _newest(one: Seen) -> int:
    """Index of the newest configuration in a node's log; below any when it told none."""
    return -2 if one.configuration is None else one.configuration
