"""Membership changes of a simulated run: the operator that makes them, and the checker of the
configurations.

    add      a spare machine, emptied and formatted to join, is started and taken in
    remove   a voter goes, the leader as soon as another; its process goes on and may disturb
    wipe     a voter's disk is lost; its new incarnation is readmitted and catches up (R6)
    lose     both copies of a small file of a voter are lost: of vote or flush mark it comes back as
             after a wipe, with its log; of the truncate intent, and of either file that says where
             the log begins, as if nothing had happened

The atlas of wipes and losses: one at a time, and the next only when the one before votes again,
because two lost disks of three may be the only two that had an entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random

from chaos.checkers.membership import Configuration as Row
from chaos.checkers.membership import find_membership_splits
from chaos.sim.lost_files import files_of, forgets
from chaos.sim.node import SimNode
from chaos.sim.profile import Profile
from chaos.sim.swarm import SwarmOptions
from dledger.core.configuration import Change, ChangeKind, Configuration, Standing
from dledger.core.quorum import majority
from dledger.core.types import NodeId
from dledger.errors import DledgerError
from dledger.membership.handshake import Member

#: Machines beside the first members.
SPARES = 2
VOTERS_MIN = 2
KINDS = ("member-add", "member-remove", "member-wipe")
#: Drawn as well when small files may be lost.
LOSS_KIND = "member-loses-file"


def with_members(options: SwarmOptions, profile: Profile) -> SwarmOptions:
    """Returns the options with the faults of members among those that a seed draws."""
    weight = sum(options.faults.values()) / 6
    faults = {**options.faults, **dict.fromkeys(KINDS, weight)}
    if profile.lost_files:
        faults[LOSS_KIND] = 3 * weight
    return dataclasses.replace(options, faults=faults)


def hello_member(node: SimNode) -> Member:
    """Returns the `Member` that the machine's hello would name now: node id, incarnation, and
    whether the roster knows it."""
    named = node.group is not None and node.group.roster.names(node.id, node.incarnation)
    return Member("sim", "sim", node.id, node.incarnation, named)


class Churn:
    """Changes the group now and then; a change that is refused is not repeated, but for wipes."""

    def __init__(
        self,
        nodes: Sequence[SimNode],
        random: Random,
        replaced: Callable[[SimNode], None],
        lost_file: Callable[[SimNode, str], None],
    ) -> None:
        self._nodes, self._random, self._replaced = nodes, random, replaced
        self._lost_file = lost_file
        self._lost: SimNode | None = None
        self.done: dict[str, int] = {}
        self.lost_files: list[str] = []

    def leader(self) -> SimNode | None:
        """Returns the leader of the highest term; None if no node leads."""
        leading = [node for node in self._nodes if node.leads]
        return max(leading, key=lambda n: n.replica.node.term if n.replica else -1, default=None)

    def group(self) -> Configuration:
        """Returns the leader's configuration; without a leader, that of the node with the longest
        log of the newest term."""
        leader = self.leader()
        replicas = [node.replica for node in ([leader] if leader else self._nodes) if node.replica]
        newest = max(replicas, key=lambda r: r.log.last, default=None)
        return Configuration() if newest is None else newest.node.configuration

    def add(self) -> None:
        """Take in a machine that is no member."""
        members = self._perhaps_members()
        spare = [node for node in self._nodes if node.id not in members and node is not self._lost]
        if not spare or not members:
            return
        node = self._random.choice(spare)
        if node.used or not node.up:
            self._replaced(node)
        kind = ChangeKind.ADD if self._random.random() < 0.8 else ChangeKind.ADD_LEARNER
        self._ask(Change(kind, node.id, node.incarnation))

    def _perhaps_members(self) -> set[NodeId]:
        """Returns the nodes that may be members, so that their disks must not be emptied; empty
        while that is uncertain.

        A machine that is none any more, as the leader has it, may be one again when that change is
        rolled back; and who leads may be deposed without knowing it, and others know better.
        """
        leader = self.leader()
        if leader is None or leader.replica is None:
            return set()
        core = leader.replica.node
        if core.configuration_index > core.commit:
            return set()
        members = set(core.configuration.names)
        for node in self._nodes:
            if node.id in members and node.replica is not None:
                members.update(node.replica.node.configuration.names)
        return members

    @property
    def voters(self) -> int:
        """Number of voters in the newest configuration."""
        return len(self.group().voters)

    @property
    def lost(self) -> SimNode | None:
        """The machine that lost its disk, until it votes again; None if there is none."""
        return self._lost

    def remove(self, victim: SimNode) -> None:
        """Let a voter go."""
        voters = self.group().voters
        if len(voters) > VOTERS_MIN and victim.id in voters and victim is not self._lost:
            self._ask(Change(ChangeKind.REMOVE, victim.id))

    def wipe(self, victim: SimNode) -> None:
        """A voter's disk is lost, if the atlas allows it."""
        if self._may_forget(victim):
            self._lost = victim
            self._replaced(victim)

    def lose_file(self, victim: SimNode) -> None:
        """Lose both copies of a voter's small file, if the fault atlas allows it.

        It is made anew, so a start on a full disk is refused until there is space.
        """
        name = self._random.choice(files_of(victim))
        if self._may_forget(victim):
            victim.excused |= not victim.disk.free
            self.lost_files.append(name)
            if forgets(name):
                self._lost = victim
            self._lost_file(victim, name)

    def _may_forget(self, victim: SimNode) -> bool:
        """May a voter forget its promises? Only while all others know theirs."""
        group = self.group()
        if self._lost is not None or victim.id not in group.voters or len(group.voters) < 3:
            return False
        leader = self.leader()
        if leader is None or leader.replica is None:
            return False
        core = leader.replica.node
        return core.configuration_index <= core.commit and victim.id in core.configuration.voters

    def tend(self) -> None:
        """The operator readmits the machine with the replaced disk, and forgets it when it votes
        again."""
        lost, leader = self._lost, self.leader()
        if lost is None or leader is None or leader.replica is None:
            return
        core = leader.replica.node
        member = core.configuration.member(lost.id)
        if member is None or member.incarnation != lost.incarnation:
            self._ask(
                Change(ChangeKind.READMIT, lost.id, lost.incarnation)
                if member is not None
                else Change(ChangeKind.ADD, lost.id, lost.incarnation)
            )
        elif member.standing is Standing.VOTER and core.configuration_index <= core.commit:
            self._lost = None

    def _ask(self, change: Change) -> None:
        leader = self.leader()
        if leader is None or leader.replica is None:
            return

        def done(error: DledgerError | None) -> None:
            if error is None:
                self.done[change.kind.value] = self.done.get(change.kind.value, 0) + 1

        leader.step(self._change, leader, change, done)

    @staticmethod
    def _change(
        leader: SimNode, change: Change, done: Callable[[DledgerError | None], None]
    ) -> None:
        if leader.replica is not None and leader.group is not None:
            incarnations = leader.group.roster.incarnations()
            leader.replica.change_members(change, done, leader.now, incarnations)

    def settled(self) -> bool:
        """True if no member is joining or returning and no lost disk awaits its readmission."""
        leader = self.leader()
        if self._lost is not None or leader is None or leader.replica is None:
            return False
        core = leader.replica.node
        standings = {member.standing for member in core.configuration.members}
        return core.configuration_index <= core.commit and not standings & {
            Standing.JOINING,
            Standing.RETURNING,
        }

    def members(self) -> list[SimNode]:
        """The nodes that the newest configuration names, voters or not."""
        names = set(self.group().names)
        return [node for node in self._nodes if node.id in names]


class MemberWatch:
    """When each configuration was appended and committed, for `chaos.checkers.membership`."""

    def __init__(self, nodes: Sequence[SimNode]) -> None:
        self._nodes = nodes
        self._seen: dict[tuple[int, int], Configuration] = {}
        self._appended: dict[tuple[int, int], float] = {}
        self._committed: dict[int, tuple[tuple[int, int], float]] = {}

    def look(self, node: SimNode, now: float) -> None:
        """After each event of `node`."""
        if node.replica is None:
            return
        core = node.replica.node
        index = core.configuration_index
        term = core.log.term_at(index)
        key = (int(index), -1 if term is None else int(term))
        if key not in self._seen:
            self._seen[key] = core.configuration
            self._appended[key] = now
        if index <= core.commit and index not in self._committed:
            self._committed[int(index)] = (key, now)

    def is_majority(self, node: SimNode, holders: set[NodeId]) -> bool:
        """Are those a majority of the group that decided, as `node` or a leader has it?

        What a voter acknowledged before its disk was lost cannot be looked up any more; it counts
        until the group knows its new incarnation.
        """
        groups = [other.replica.node.configuration for other in self._nodes if other.replica]
        mine = node.replica.node.configuration if node.replica else Configuration()
        return any(
            len((holders | self._gone(group)) & set(group.voters)) >= majority(group.quorum)
            for group in (mine, *groups)
            if group.quorum
        )

    def _gone(self, group: Configuration) -> set[NodeId]:
        """Returns the voters with a disk that the group does not know: the machine has another
        incarnation than the configuration names."""
        first = {node.id: node.index + 1 for node in self._nodes}
        incarnations = {node.id: node.incarnation for node in self._nodes}
        return {
            member.node_id
            for member in group.members
            if incarnations[member.node_id] != (member.incarnation or first[member.node_id])
        }

    def splits(self) -> list[str]:
        """Returns the anomalies that the membership checker finds in the committed configurations,
        as lines."""
        rows = []
        for key, committed in self._committed.values():
            group = self._seen[key]
            voting = {name.lstrip("\0") for name in group.quorum}
            rows.append(
                Row(
                    key[0],
                    frozenset(voting),
                    self._appended[key],
                    committed,
                    frozenset(voting - set(group.voters)),
                )
            )
        return [f"{found.name}: {found.detail}" for found in find_membership_splits(rows)]
