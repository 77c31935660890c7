"""Votes and commit index as functions of sets (paper 5.2, 5.3, 5.4.2).

Every question about a majority is asked here, of `Configuration.quorum`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from dledger.core.types import NodeId

Number = TypeVar("Number", int, float)


def majority(voters: Collection[NodeId]) -> int:
    """How many of `voters` any two of which always meet."""
    return len(voters) // 2 + 1


def has_majority(yes: Collection[NodeId], voters: Collection[NodeId]) -> bool:
    """Are enough of the voters, each counted once, among `yes`? (S7: votes are a set.)"""
    return sum(voter in yes for voter in voters) >= majority(voters)


def agreed(values: Mapping[NodeId, Number], voters: Collection[NodeId]) -> Number:
    """The highest number that a majority of voters has reached. Missing voters count as -1."""
    reached = sorted([values.get(voter, -1) for voter in voters])
    return reached[len(reached) - majority(voters)]
