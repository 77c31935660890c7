"""Nodes that a target of a schedule means at one moment of a simulated run."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.faults import Target
from chaos.schedule import minority
from chaos.sim.node import SimNode


def chosen(
    target: Target, members: list[SimNode], leading: Sequence[SimNode], random: Random
) -> list[SimNode]:
    """The nodes of `members` that `target` means now; random ones if there is no leader.

    `leading`: nodes that lead, also ones that are no members; `random`: the fault's own.
    """
    if target is Target.ALL:
        return members
    if target is Target.RANDOM:
        return [random.choice(members)]
    if target is Target.MINORITY:
        drawn = random.sample(members, min(minority(len(members)), len(members)))
        return [node for node in members if node in drawn]
    leaders = [node for node in leading if node in members]
    if target in (Target.LEADER, Target.NEW_LEADER):
        return [random.choice(leaders or members)]
    followers = [node for node in members if node not in leaders] or members
    if target is Target.FOLLOWER:
        return [random.choice(followers)]
    if target is Target.LAST_VOTER:
        voters = [node for node in followers if any(_voted(node, for_) for for_ in leaders)]
        return [random.choice(voters or followers)]
    if target is Target.CATCHING_UP:  # one that is down is not
        followers = [node for node in followers if node.up] or followers
    best = max if target is Target.MOST_CURRENT else min
    return [best(followers, key=_end_of_log)]


def _end_of_log(node: SimNode) -> int:
    """-1 while no process runs."""
    return -1 if node.replica is None else int(node.replica.log.last.index)


def _voted(node: SimNode, leader: SimNode) -> bool:
    """Whether its vote made this leader."""
    if node.replica is None or leader.replica is None:
        return False
    mine, its = node.replica.node.status(), leader.replica.node.status()
    return (mine.term, mine.voted_for) == (its.term, leader.id)
