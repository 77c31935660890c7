"""The members of the group, as a value, and its one-step changes (dissertation ch. 4).

    standing    sent the log   its vote and its disk count   in the size of the quorum
    VOTER       yes            yes                           yes
    RETURNING   yes            no                            yes    lost its disk, readmitted (R6)
    JOINING     yes            no                            no     becomes a voter when caught up
    LEARNER     yes            no                            no     stays as it is

A configuration is an entry of the log and counts from the moment it is appended (R20). Each change
adds or takes away one voter at most, so that every majority before it meets every majority after.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dledger.core.types import NO_INDEX, Index, NodeId, Reason

#: A majority of more nodes answers no faster and costs the leader a copy each; bounds the entry.
MEMBERS_MAX = 15


class Standing(enum.Enum):
    """How a member counts; see the module's text."""

    VOTER = "voter"
    RETURNING = "returning"
    JOINING = "joining"
    LEARNER = "learner"


class Member(NamedTuple):
    """One node of the group.

    `incarnation`: the life of it that is meant, 0 for the first one that is met (peers.py).
    `address`: how it is reached; opaque to the rules.
    """

    node_id: NodeId
    standing: Standing = Standing.VOTER
    incarnation: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """All members, in the order of their names. Empty: this node does not know its group yet."""

    members: tuple[Member, ...] = ()

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The members with votes and acknowledgements that count, in order."""
        return tuple(m.node_id for m in self.members if m.standing is Standing.VOTER)

    @property
    def quorum(self) -> tuple[NodeId, ...]:
        """The names that majorities are counted of.

        A returning voter is among them under a name that nobody answers to: the quorum is no
        smaller for it, and it is never counted, whatever it says.
        """
        return tuple(
            m.node_id if m.standing is Standing.VOTER else NodeId(f"\0{m.node_id}")
            for m in self.members
            if m.standing in (Standing.VOTER, Standing.RETURNING)
        )

    @property
    def names(self) -> tuple[NodeId, ...]:
        """Ids of all members, learners too, in the order of their names."""
        return tuple(m.node_id for m in self.members)

    def member(self, node_id: NodeId) -> Member | None:
        """The member with this id; None if the group has none."""
        for member in self.members:
            if member.node_id == node_id:
                return member
        return None


class ConfigurationEntry(NamedTuple):
    """A configuration and where it is in the log; None: flagged by a frame, not read yet."""

    index: Index  # type: ignore[assignment]  # hides tuple.index, as in EntryId
    configuration: Configuration | None


NO_CONFIGURATION = Configuration()


def of_voters(voters: tuple[NodeId, ...]) -> Configuration:
    """The configuration that a group begins with, before its first configuration entry."""
    return Configuration(tuple(Member(voter) for voter in sorted(voters)))


class ChangeKind(enum.Enum):
    """ADD: as JOINING. READMIT: a voter that lost its disk, as RETURNING. PROMOTE: to VOTER."""

    ADD = "add"
    ADD_LEARNER = "add-learner"
    READMIT = "readmit"
    PROMOTE = "promote"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Change:
    """One step from a configuration to the next."""

    kind: ChangeKind
    node_id: NodeId
    incarnation: int = 0
    address: str = ""


def changed(
    configuration: Configuration, change: Change, incarnations: Mapping[NodeId, int] | None = None
) -> Configuration | Reason:
    """The configuration after `change`, or why there is none.

    `incarnations`: the incarnation of each node that the leader has met; every entry pins them.
    None where incarnations are not told apart.
    """
    if incarnations is None:
        return _changed(configuration, change)
    before = _pinned(configuration, incarnations)
    after = _changed(before, change)
    if isinstance(after, Configuration) and _unmet(before, change):
        return Reason.UNMET_MEMBER
    return after


def _changed(configuration: Configuration, change: Change) -> Configuration | Reason:
    member = configuration.member(change.node_id)
    kind = change.kind
    if kind in (ChangeKind.ADD, ChangeKind.ADD_LEARNER):
        return _added(configuration, member, change)
    if member is None:
        return Reason.UNKNOWN_MEMBER
    if kind is ChangeKind.REMOVE:
        if configuration.voters in ((), (change.node_id,)):
            return Reason.LAST_VOTER
        return Configuration(tuple(m for m in configuration.members if m is not member))
    if kind is ChangeKind.PROMOTE:
        if member.standing is Standing.VOTER:
            return Reason.ALREADY_MEMBER
        return _with(configuration, member._replace(standing=Standing.VOTER))
    return _readmitted(configuration, member, change)


def _pinned(configuration: Configuration, incarnations: Mapping[NodeId, int]) -> Configuration:
    """The same group, each member in the life that was met, where that is known."""
    return Configuration(
        tuple(
            member._replace(incarnation=member.incarnation or incarnations.get(member.node_id, 0))
            for member in configuration.members
        )
    )


def _unmet(configuration: Configuration, change: Change) -> bool:
    """True if a node would come in and another member has no pinned incarnation.

    The new node has met no peer: it would take an incarnation that lost its disk for the first
    one (R6).
    """
    comes_in = change.kind not in (ChangeKind.PROMOTE, ChangeKind.REMOVE)
    others = (m for m in configuration.members if m.node_id != change.node_id)
    return comes_in and not all(member.incarnation for member in others)


def _added(
    configuration: Configuration, member: Member | None, change: Change
) -> Configuration | Reason:
    joins = change.kind is ChangeKind.ADD
    if member is not None:
        if not joins or member.standing is not Standing.LEARNER:
            return Reason.ALREADY_MEMBER
        return _with(configuration, member._replace(standing=Standing.JOINING))
    if len(configuration.members) >= MEMBERS_MAX:
        return Reason.TOO_MANY_MEMBERS
    standing = Standing.JOINING if joins else Standing.LEARNER
    return _with(
        configuration, Member(change.node_id, standing, change.incarnation, change.address)
    )


def _readmitted(
    configuration: Configuration, member: Member, change: Change
) -> Configuration | Reason:
    """`member` in its new incarnation: it keeps its place in the quorum, but no promise."""
    if change.incarnation in (0, member.incarnation):
        return Reason.ALREADY_MEMBER
    standing = member.standing
    if standing is Standing.VOTER:
        if configuration.voters == (member.node_id,):
            return Reason.LAST_VOTER
        standing = Standing.RETURNING
    address = change.address or member.address
    return _with(configuration, Member(member.node_id, standing, change.incarnation, address))


def _with(configuration: Configuration, member: Member) -> Configuration:
    others = [m for m in configuration.members if m.node_id != member.node_id]
    return Configuration(tuple(sorted([*others, member], key=lambda m: m.node_id)))


INITIAL = NO_INDEX  # where a configuration "is" that no entry holds
