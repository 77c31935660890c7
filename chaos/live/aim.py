"""Targets of faults as nodes, from the present state of nodes and their disks.

Source: docs/spec/chaos.md 3.2, targets.

role        random, leader, follower          asked of every node
log         most-current, least-current       ends of followers' logs
catching-up behind what is committed          else who came back last, stopped until it is
last-voter  its hard state names the leader   in the leader's own term
new-leader  the leader hands over             the next leader, at once
many        minority, all
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from chaos.faults import Target
from chaos.live import node_hooks
from chaos.live.arena import Arena
from chaos.schedule import minority
from cluster.local import processes
from dledger.core.types import HardState
from dledger.durable import double_slot, hard_state

LEADER_SECONDS_MAX = 2.0
LAG_SECONDS = 0.25  # below an election timeout, so that it stays a follower
HAND_OVER_SECONDS_MAX = 2.0

Statuses = Mapping[str, Mapping[str, Any] | None]


class Aimed(NamedTuple):
    """The nodes that a fault hits. `because` says why this node was chosen, where the target's name
    does not say it.

    `met` is False if no node fitted the target, so that a random one was chosen.
    """

    nodes: tuple[str, ...]
    because: str = ""
    met: bool = True


class Aim:
    """Resolves the targets of one run."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._nodes: Sequence[str] = arena.cluster.brokers
        self._returned: list[str] = []

    def came_back(self, node: str) -> None:
        """A fault gave the node back."""
        self._returned.append(node)

    async def choose(self, target: Target, random: Random, spared: Collection[str]) -> Aimed:
        """Chooses the nodes that `target` means at this moment; a random node if none fits (no
        leader is known, no such follower). Nodes in `spared` are chosen only if all are spared; the
        fault then waits until the chosen one is free.
        """
        # If all nodes are spared, any may be chosen; the fault waits until that node is free.
        nodes = [node for node in self._nodes if node not in spared] or list(self._nodes)
        if target is Target.ALL:
            return Aimed(tuple(self._nodes))
        if target is Target.MINORITY:
            drawn = random.sample(nodes, min(minority(len(self._nodes)), len(nodes)))
            return Aimed(tuple(node for node in nodes if node in drawn))  # always in one order
        if target is Target.RANDOM:
            return Aimed((random.choice(nodes),))
        leader = await self._leader()
        if target is Target.NEW_LEADER and leader and leader not in spared:
            return await self._new_leader(leader, nodes)
        if target in (Target.LEADER, Target.NEW_LEADER):
            if leader in nodes:
                return Aimed((leader,), met=target is Target.LEADER)
            return Aimed((random.choice(nodes),), met=False)
        followers = [node for node in nodes if node != leader]
        aimed = await self._of_followers(target, random, leader, followers or nodes)
        return aimed if leader and followers else aimed._replace(met=False)

    async def _of_followers(
        self, target: Target, random: Random, leader: str, followers: Sequence[str]
    ) -> Aimed:
        if target is Target.FOLLOWER:
            return Aimed((random.choice(followers),))
        statuses = await self._arena.statuses()
        if target is Target.CATCHING_UP:
            return self._catching_up(statuses, random, followers)
        if target is Target.LAST_VOTER:
            return self._last_voter(statuses.get(leader), random, leader, followers)
        best = max if target is Target.MOST_CURRENT else min
        return Aimed((best(followers, key=lambda node: _of(statuses, node, "last_index")),))

    def _catching_up(self, statuses: Statuses, random: Random, followers: Sequence[str]) -> Aimed:
        """Chooses the answering follower that misses the most committed entries; without one, the
        follower that returned last, else a random one."""
        committed = self._committed(statuses)
        misses = {
            node: committed - _of(statuses, node, "last_index")
            for node in followers
            if statuses[node] is not None
        }
        behind = max(misses, key=lambda node: misses[node], default="")
        if behind and misses[behind] > 0:
            return Aimed((behind,), f"{behind} misses {misses[behind]} committed entries")
        returned = [node for node in self._returned if node in followers]
        if returned:
            return Aimed((returned[-1],), f"{returned[-1]} came back last")
        return Aimed((random.choice(followers),), met=False)

    async def let_lag(self, node: str) -> str:
        """Stop a node that has all until it misses something, and let it go on that moment.

        Only for a fault that takes the node away anyhow. "" when it misses enough as it is.
        """
        before = await self._arena.statuses()
        last = _of(before, node, "last_index")
        if last < 0 or self._committed(before) > last:
            return ""
        folder = self._arena.cluster.folder(node)
        processes.send(folder, signal.SIGSTOP)
        try:
            await asyncio.sleep(LAG_SECONDS)
        finally:
            # Nobody is asked before: it has caught up by the time that all have answered.
            processes.send(folder, signal.SIGCONT)
        return f"{node} was stopped for {LAG_SECONDS:g} s behind entry {last}"

    def _committed(self, statuses: Statuses) -> int:
        return max(_of(statuses, node, "committed_index") for node in self._nodes)

    def _last_voter(
        self,
        status: Mapping[str, Any] | None,
        random: Random,
        leader: str,
        followers: Sequence[str],
    ) -> Aimed:
        term = -1 if status is None else int(status["term"])
        voters = []
        for node in followers:
            state = vote_of(self._arena.cluster.folder(node) / "data" / f"dledger-{node}")
            if state is not None and (state.term, state.voted_for) == (term, leader):
                voters.append(node)
        if not voters:
            return Aimed((random.choice(followers),), met=False)
        voter = random.choice(voters)
        return Aimed((voter,), f"{voter} voted for {leader} in term {term}")

    async def _new_leader(self, leader: str, nodes: Sequence[str]) -> Aimed:
        """Makes the leader hand over and chooses the new leader. If the leader refuses, the leader
        itself is chosen."""
        folder = self._arena.cluster.folder(leader)
        node_hooks.ask(folder, transfer="")
        try:
            found = await self._arena.leader(other_than=leader, seconds_max=HAND_OVER_SECONDS_MAX)
        except TimeoutError:
            return Aimed((leader,), met=False)
        finally:
            node_hooks.forget(folder)
        if found not in nodes:
            return Aimed((leader,), met=False)
        return Aimed((found,), f"{found} leads since {leader} handed over")

    async def _leader(self) -> str:
        try:
            return await self._arena.leader(seconds_max=LEADER_SECONDS_MAX)
        except TimeoutError:
            return ""


def _of(statuses: Statuses, node: str, name: str) -> int:
    """A number of a node's status, -1 when it does not answer."""
    return int((statuses.get(node) or {}).get(name, -1))


def vote_of(folder: Path) -> HardState | None:
    """Term and vote on a node's disk, while it runs or not; None when neither slot is valid."""
    try:
        content = (folder / hard_state.FILE_NAME).read_bytes()
    except OSError:
        return None
    size = double_slot.SLOT_SIZE
    slots = [double_slot.decode_slot(content[at : at + size]) for at in (0, size)]
    newest = max((slot for slot in slots if slot is not None), default=None)
    return None if newest is None else hard_state.decode(newest[1])
