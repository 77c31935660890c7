"""Decides which peers may speak to this node: members in their known incarnation, and strangers.

    member, incarnation in the configuration    that one and no other (S7, R6)
    member, incarnation 0                       the first one that was met (peers.py)
    this node knows no group yet                every caller, to ask and to lead
    another incarnation, or not a member        a *stranger*: let in while no other leader is heard
                                                and if the configuration in its own log names it in
                                                this incarnation (a node that forgot all has none)

A stranger may be a member by an entry that has not come here yet, and be needed (dissertation 4.1):
it may ask for votes and lead, and nothing that it answers is heard.

A caller that is no member, or comes back in another incarnation, is remembered as a *visitor*: its
incarnation and address are what `member add` and `member replace` put into the configuration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from commitlog.address import split_address
from dledger.config import Address
from dledger.core.configuration import NO_CONFIGURATION, Change, ChangeKind, Configuration
from dledger.core.types import NodeId
from dledger.errors import MembershipRefused
from dledger.membership.generation import Told, Witness
from dledger.membership.handshake import Hello, Member
from dledger.membership.incarnations import KnownPeers
from dledger.wire.frames import FrameType

#: Names remembered of callers that are not members; each is a node that was started by hand.
VISITORS_MAX = 64
#: A node that wants to be let in calls twice a second; one that does not any more is gone, and
#: the incarnation that it had with it.
VISIT_SECONDS_MAX = 5.0

#: What is heard from known members only: it is counted, or answered with what they may know.
ANSWER_TYPES = frozenset(
    {
        FrameType.VOTE_REPLY,
        FrameType.APPEND_REPLY,
        FrameType.SNAPSHOT_REPLY,
        FrameType.HEARTBEAT_REPLY,
        FrameType.READ_INDEX_REQUEST,
        FrameType.RANGE_REQUEST,
        FrameType.RANGE_REPLY,
    }
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Values of a visitor's hello, and its time, in seconds."""

    incarnation: int
    address: str
    called_at: float = 0.0
    level: int = 0


class NodeIncarnation(NamedTuple):
    """A node as of one formatting of its folder."""

    node_id: NodeId
    incarnation: int


class Roster:
    """Asked by the handshake of every connection; told of every configuration."""

    def __init__(
        self,
        known: KnownPeers,
        me: NodeIncarnation,
        now: Callable[[], float] = time.monotonic,
        witness: Witness | None = None,
    ) -> None:
        self._known, self._me, self._now = known, me, now
        self.witness = witness
        self.configuration = NO_CONFIGURATION
        self.visitors: dict[NodeId, Visitor] = {}
        #: Which leader is alive? The core knows.
        self.live_leader: Callable[[], NodeId | None] = lambda: None

    def follow(self, configuration: Configuration) -> None:
        """The group is another one now. Of one that has gone, the old incarnation is forgotten."""
        for node in set(self.configuration.names) - set(configuration.names):
            self.visitors.pop(node, None)
        self.configuration = configuration

    def __contains__(self, node: object) -> bool:
        names = self.configuration.names
        return not names or node in names

    def strangers(self, member: Member) -> bool:
        """As `dledger.membership.handshake.Strangers`."""
        return member.named and self.live_leader() in (None, member.node_id)

    def names(self, node: NodeId, incarnation: int) -> bool:
        """Does the configuration name `node`, and in no other incarnation than this?

        Asked of a node's own log. A node that forgot all has none, so as long as incarnations are
        not pinned a name is enough.
        """
        member = self.configuration.member(node)
        return member is not None and member.incarnation in (0, incarnation)

    def knows(self, node: NodeId, incarnation: int) -> bool:
        """Is it a member, in the incarnation that we know? Else its answers are not heard."""
        return self.configuration.member(node) is not None and self.vouch(node, incarnation) is None

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.configuration.names)

    def vouch(self, peer: NodeId, incarnation: int) -> str | None:
        """None if `peer` may take part as this incarnation; else a sentence that refuses it."""
        member = self.configuration.member(peer)
        if member is None:
            return None
        if not member.incarnation:
            try:
                return self._known.vouch(peer, incarnation)
            except OSError as error:
                return f"the first meeting with {peer} cannot be written down: {error}; free space"
        if member.incarnation == incarnation:
            return None
        return (
            f"{peer} comes back as incarnation {incarnation} and the group knows "
            f"{member.incarnation}: its folder was formatted again, or lost the file of its votes "
            "or its flush mark, so it forgot what it had promised; bring its old folder back, or "
            f"readmit it: member replace {peer}"
        )

    def incarnations(self) -> dict[NodeId, int]:
        """Incarnations of this node and of every peer that it has met."""
        return {**self._known.met, self._me.node_id: self._me.incarnation}

    def visited(self, hello: Hello) -> None:
        """Remember a caller that said hello and proved the secret."""
        node = hello.sender.node_id
        self.visitors.pop(node, None)
        incarnation, level = hello.sender.incarnation, hello.sender.level
        self.visitors[node] = Visitor(incarnation, hello.address, self._now(), level)
        if len(self.visitors) > VISITORS_MAX:
            del self.visitors[next(iter(self.visitors))]

    def parted(self, node: NodeId) -> None:
        """Forget the level of a node that has no connection; it states one when it comes back."""
        visitor = self.visitors.get(node)
        if visitor is not None:
            self.visitors[node] = replace(visitor, level=0)

    def levels(self) -> dict[NodeId, int]:
        """The feature level that each other member says it understands; 0: it does not say, or is
        not connected.
        """
        names = self.configuration.names
        return {name: self._level_of(name) for name in names if name != self._me.node_id}

    def _level_of(self, node: NodeId) -> int:
        """0 also in another incarnation than the one that we know."""
        visitor = self.visitors.get(node)
        known = visitor is not None and self.knows(node, visitor.incarnation)
        return visitor.level if visitor is not None and known else 0

    def unknown_visitors(self) -> list[tuple[NodeId, Visitor]]:
        """Visitors that are no members, or members in another incarnation."""
        return [
            (name, visitor)
            for name, visitor in self.visitors.items()
            if not self.knows(name, visitor.incarnation)
        ]

    def renewed(self, hello: Hello, told: Told) -> None:
        """A peer's folder has another generation."""
        if self.witness is not None:
            self.witness.remember(hello.sender.node_id, hello.sender.incarnation, told.own)

    def visitor(self, node: NodeId) -> Visitor | None:
        """The node's last visit, if it called lately."""
        found = self.visitors.get(node)
        recent = found is not None and self._now() - found.called_at < VISIT_SECONDS_MAX
        return found if recent else None

    def change(self, kind: ChangeKind, node: NodeId) -> Change:
        """The change with all that is known of `node`. Raises MembershipRefused."""
        if kind in (ChangeKind.REMOVE, ChangeKind.PROMOTE):
            return Change(kind, node)
        is_here = self.configuration.member(node) is not None
        if is_here and kind is not ChangeKind.READMIT:
            return Change(kind, node)
        visitor = self.visitor(node)
        if visitor is None or (is_here and self.vouch(node, visitor.incarnation) is None):
            what = (
                "has not come back as another incarnation"
                if is_here
                else "has not called this node"
            )
            raise MembershipRefused(
                f"{node} {what}; start it on a folder that was formatted to join, with this node "
                "among its peers, and try again",
                retriable=True,
            )
        return Change(kind, node, visitor.incarnation, visitor.address)


def peer_address(text: str) -> Address | None:
    """A member's peer address, from its own address text: "host:port", then other words."""
    try:
        return split_address(text.partition(" ")[0])
    except ValueError:
        return None


def service_of(text: str) -> str:
    """The word behind the address: where the node serves its own clients, "" when not told."""
    return text.partition(" ")[2]
