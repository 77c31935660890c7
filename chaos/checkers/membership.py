"""Consecutive configurations share a quorum, and one change is under way at most.

Raft dissertation 4.1: with one voter added or removed at a time every majority of the old
configuration overlaps every majority of the new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly


class Configuration(NamedTuple):
    """A configuration entry at index `at`: who votes, when it was appended and committed.

    `mute`: those of the voters that are in the size of the quorum and never counted.
    """

    at: int
    voters: frozenset[str]
    appended: float
    committed: float
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
