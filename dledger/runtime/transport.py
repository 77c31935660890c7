"""Connections between peers: two links to each, dialled by the sender, messages one way only.

    n1 ── control ──► n2     n1 dials n2 twice and sends on these two; what n2 has to say
    n1 ── bulk ─────► n2     travels on the two that n2 dials. A fault of one direction of a
    n1 ◄─ control ─── n2     link is a fault of that direction.
    n1 ◄─ bulk ────── n2

Nothing here blocks and nothing is kept for later: a message for a peer that cannot be reached, or
whose queue is full, is dropped and counted, and the core sends what is still needed again (L3).
Bulk data that does not fit is refused, of control messages the oldest goes. A peer that sends
rubbish loses that connection; a caller that is not the expected peer is told why.

`link.py` is one outgoing connection, `inbound.py` one incoming one, `inbound_tls.py` one that may
speak TLS, `peer_port.py` where they come in.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from commitlog.files.system import Buffer
from dledger.config import Address, RaftConfig
from dledger.core.configuration import Configuration
from dledger.core.events import PeerConnected
from dledger.core.messages import (
    AppendEntries,
    AppendReply,
    Message,
    RangeReply,
    SnapshotChunk,
    VoteReply,
)
from dledger.core.types import NodeId
from dledger.membership.generation import frame_for
from dledger.membership.handshake import Hello, LinkKind, Member, Vouch
from dledger.membership.roster import Roster, peer_address
from dledger.runtime.complaints import Complaints
from dledger.runtime.group_clock import GroupClock
from dledger.runtime.inbound import Inbound, Side
from dledger.runtime.link import Carriers, Link, LinkSettings, LinkStatus
from dledger.runtime.owned import Owned
from dledger.runtime.peer_port import PeerPort
from dledger.wire.forwards import Forwarded, no_machine
from dledger.wire.frames import Frame
from dledger.wire.messages import encode

_log = logging.getLogger(__name__)

#: Nodes that are dialled: the members, who was removed lately, and who called and is none yet.
LINKS_MAX = 64
#: For so long a node that is no member any more is dialled; it is told of that within half of it.
GONE_SECONDS = 15.0
#: What queues behind the bytes of the log, never before heartbeats and votes (L2).
_BULK_KINDS = frozenset({AppendEntries, AppendReply, SnapshotChunk, RangeReply})


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks of the transport to its owner; all come on the event loop."""

    #: A decoded message; its log bytes are valid during the call only. Raises MalformedFrame to
    #: have the connection closed.
    received: Callable[[Message], None]
    #: An open connection broke: (peer, link_kind, it was the one that we dialled).
    disconnected: Callable[[NodeId, LinkKind, bool], None]
    #: What the transport has the loop call.
    owned: Owned
    #: A FORWARD or its reply, of a member, valid during the call only. Raises as `received`.
    #: None: no machine is here to take commands, and who forwards one is told so.
    forwarded: Forwarded | None = None
    #: The connection to a peer for heartbeats and votes is open.
    connected: Callable[[PeerConnected], None] = lambda _: None


class Shared(Protocol):
    """Shared by the groups of a host (host_parts.py)."""

    @property
    def port(self) -> PeerPort:
        """Open already."""
        ...

    @property
    def links(self) -> Carriers:
        """Connections to other hosts."""
        ...


class Transport:
    """All connections of one replica."""

    def __init__(
        self,
        config: RaftConfig,
        me: Member,
        listener: Listener,
        jitter: Callable[[], float],
        vouch: Vouch,
        roster: Roster | None = None,
        clocks: GroupClock | None = None,
        shared: Shared | None = None,
    ) -> None:
        """`shared`: with other groups; None: this one has a port and connections of its own."""
        self._config, self._me, self._listener, self._vouch = config, me, listener, vouch
        self._clocks = clocks
        if clocks is not None:
            clocks.behind = self._answer_clocks
        members = frozenset(NodeId(name) for name in config.peers)
        self._roster = roster
        self._members: frozenset[NodeId] | Roster = members if roster is None else roster
        self._jitter = jitter
        self._started = self._stopped = self._promised = False
        self._secret = None if config.secret is None else config.secret.encode()
        self._is_alone, self._carriers = shared is None, None if shared is None else shared.links
        self.peer_port = PeerPort(config, listener.owned) if shared is None else shared.port
        self.inbound: dict[tuple[NodeId, LinkKind], Inbound] = {}
        self._complaints = Complaints(_log, listener.owned.time)
        self._encoded: tuple[Message | None, list[Buffer]] = (None, [])
        self._closing: set[asyncio.Task[None]] = set()
        self._last_side: Side | None = None
        self.links: dict[tuple[NodeId, LinkKind], Link] = {}
        self._addresses: dict[NodeId, Address] = {}
        #: Called when a peer is to be told of our clocks again and again, by `tell_clocks`.
        self.clocks_wanted: Callable[[], None] = lambda: None
        self._bulk: dict[NodeId, Link] = {}
        self._control: dict[NodeId, Link] = {}
        for peer in sorted(members - {me.node_id}):
            self._open_links(peer, config.dial_address(peer))

    def _open_links(self, peer: NodeId, address: Address) -> None:
        """Open both links to a peer; they are dialled from now on, when the transport runs."""
        self._addresses[peer] = address
        for link_kind in LinkKind:
            tls = self.peer_port.tls
            settings = LinkSettings.of(self._config, peer, link_kind, self._secret, address, tls)
            calls = self._member, self._vouch, self._jitter, self._link_lost
            link = Link(settings, *calls, self._carriers)
            if self._roster is not None:
                link.strangers = self._roster.strangers
                link.witness = self._roster.witness
            self.links[peer, link_kind] = link
            if self._started:
                link.start(self._listener.owned)
        self._bulk[peer] = self.links[peer, LinkKind.BULK]
        control = self._control[peer] = self.links[peer, LinkKind.CONTROL]
        control.opened = self._control_opened

    def _close_links(self, peer: NodeId) -> None:
        for link_kind in LinkKind:
            link = self.links.pop((peer, link_kind))
            closing = self._listener.owned.create_task(link.stop())
            self._closing.add(closing)
            self._listener.owned.when_done(closing, self._closing.discard)
        del self._bulk[peer], self._control[peer], self._addresses[peer]

    def follow(self, configuration: Configuration) -> None:
        """Take a new configuration: dial new and moved members, close links of other incarnations.

        Links to nodes that are no members stay for a while: a removed one is told that it is.
        """
        assert self._roster is not None, "only a roster knows who may call"
        for member in configuration.members:
            peer = member.node_id
            address = self._config.dial.get(peer) or peer_address(member.address)
            if peer == self._me.node_id or address is None:
                continue
            if peer in self._addresses and self._addresses[peer] != address:
                self._close_links(peer)
            if peer not in self._addresses:
                self._open_links(peer, address)
        for (peer, _), inbound in list(self.inbound.items()):
            hello = inbound.hello
            if hello is not None:
                known = self._roster.knows(peer, hello.sender.incarnation)
                if known is inbound.is_stranger:  # it is another one to us now: ask again
                    inbound.close()
        if self._addresses.keys() - set(configuration.names):
            self._listener.owned.call_later(GONE_SECONDS, self._forget_gone)

    def _forget_gone(self) -> None:
        """Close links to nodes that left the group. If one is needed again, its own call tells its
        address."""
        assert self._roster is not None
        names = self._roster.configuration.names
        if names and self._started:
            for peer in self._addresses.keys() - set(names):
                self._close_links(peer)

    def _dial_visitor(self, peer: NodeId) -> None:
        """The core has an answer for one that called and is no member here (yet)."""
        visitor = None if self._roster is None else self._roster.visitors.get(peer)
        address = None if visitor is None else peer_address(visitor.address)
        if address is not None and self._started and len(self._addresses) < LINKS_MAX:
            self._open_links(peer, self._config.dial.get(peer) or address)
            self._listener.owned.call_later(GONE_SECONDS, self._forget_gone)

    async def start(self) -> None:
        """Let peers in, and begin to dial them.

        Raises OSError when the address is taken, LogUsageError when the group is open already.
        """
        self.peer_port.add(self._me.group, self._side)
        if self._is_alone:
            await self.peer_port.open()
        self._started = True
        for link in self.links.values():
            link.start(self._listener.owned)

    @property
    def port(self) -> int:
        """The port that is listened on, also when the configured one is 0."""
        return self.peer_port.number

    async def stop(self) -> None:
        """Close all connections; no callback comes any more."""
        if self._is_alone:
            await self.peer_port.close()
        if self._started:
            self.peer_port.remove(self._me.group)
        self._started, self._stopped = False, True
        for link in self.links.values():
            await link.stop()
        if self._closing:
            await asyncio.wait(self._closing)
        for inbound in list(self.inbound.values()):
            inbound.close()
        self.inbound.clear()

    def cut(self) -> None:
        """End all connections at once, if it shares those of a host, which goes on to beat (R30);
        they are dialled again."""
        if self._is_alone:
            return
        for link in self.links.values():
            link.cut()
        for inbound in list(self.inbound.values()):
            inbound.close()

    def send(self, to: NodeId, message: Message) -> None:
        """Queue `message` on the link of its kind, or drop it."""
        if message is not self._encoded[0]:  # one range for several followers is encoded once
            self._encoded = message, encode(message)
        kind = type(message)
        bulk = kind in _BULK_KINDS
        if bulk or kind is VoteReply:
            self._promised = True
        link = (self._bulk if bulk else self._control).get(to)
        if link is None:
            self._dial_visitor(to)
        else:
            link.send(self._encoded[1])

    def forward(self, to: NodeId, parts: list[Buffer]) -> bool:
        """Send a FORWARD or its reply; False: certainly not sent."""
        link = self._bulk.get(to)
        return link is not None and link.forward(parts)

    def _no_machine(self, peer: NodeId, frame: Frame) -> None:
        parts = no_machine(frame)
        if parts:
            self.forward(peer, parts)

    def has_promised(self) -> bool:
        """Has anything been sent, since this was last asked, that must not be forgotten?"""
        promised, self._promised = self._promised, False
        return promised

    def announce(self) -> None:
        """Tell the peers of the generation that our folder has now."""
        assert self._roster is not None
        if self._roster.witness is not None:
            for peer, link in self._control.items():
                link.announce(frame_for(self._roster.witness, peer, 0))

    def tell_clocks(self) -> bool:
        """Send the times of our clocks to every peer that no host tells for us; False: to none."""
        peers = [peer for peer in self._control if self._is_told_here(peer)]
        for peer in peers:
            self._answer_clocks(peer)
        return bool(peers)

    def _is_told_here(self, peer: NodeId) -> bool:
        """True if this group tells `peer` the clock, since no carrier between hosts does."""
        counts = self._clocks is not None and self._clocks.hosts is not None
        carried = counts and self._control[peer].is_carried
        return not (carried and self._carriers is not None and self._carriers.tells_clocks(peer))

    def _control_opened(self, peer: NodeId) -> None:
        if peer in self._control and self._is_told_here(peer):
            self._answer_clocks(peer)
            self.clocks_wanted()
        self._listener.connected(PeerConnected(peer))

    def _answer_clocks(self, peer: NodeId) -> None:
        if self._clocks is not None and peer in self._control:
            self._control[peer].tell_clocks(functools.partial(self._clocks.frame_for, peer))

    @property
    def cluster_id(self) -> str:
        """The cluster id that peers must name in their hello."""
        return self._me.cluster_id

    def status(self) -> dict[str, LinkStatus]:
        """Each outgoing connection, as "peer/kind"."""
        return {
            f"{peer}/{link_kind.name.lower()}": link.status()
            for (peer, link_kind), link in self.links.items()
        }

    # -- incoming --------------------------------------------------------------------------------

    def _side(self) -> Side:
        """Us, as the next connection to this group sees us: the same for all while `me` is."""
        me, old = self._member(), self._last_side
        if old is None or old.me != me:
            old = self._last_side = self._new_side(me)
        return old

    def _new_side(self, me: Member) -> Side:
        return Side(
            me,
            self._members,
            self._vouch,
            self._listener.received,
            self._greeted,
            self._inbound_lost,
            self._listener.owned,
            self._roster,
            self._clocks,
            self._listener.forwarded or self._no_machine,
        )

    def _member(self) -> Member:
        """This node as in its hello, with `named`: the group names this incarnation."""
        me = self._me
        if self._roster is not None and self._roster.names(me.node_id, me.incarnation):
            return me._replace(named=True)
        return me

    def _greeted(self, inbound: Inbound, hello: Hello) -> None:
        """A peer has come in. It replaces its older connection, and we dial it now if we do not."""
        if self._stopped:  # on a shared port it was still being greeted
            inbound.close()
            return
        peer, link_kind = hello.sender.node_id, hello.link_kind
        old = self.inbound.get((peer, link_kind))
        self.inbound[peer, link_kind] = inbound
        if old is not None:
            old.close()
        if (peer, link_kind) in self.links:
            self.links[peer, link_kind].dial_now()

    def _inbound_lost(self, inbound: Inbound, reason: str) -> None:
        hello = inbound.hello
        assert hello is not None, "before its hello a connection is the port's"
        peer, link_kind = hello.sender.node_id, hello.link_kind
        if self.inbound.get((peer, link_kind)) is not inbound:
            return
        del self.inbound[peer, link_kind]
        if self._roster is not None and not any((peer, one) in self.inbound for one in LinkKind):
            self._roster.parted(peer)
        self._say(f"closed {peer}'s connection", inbound, reason)
        self._listener.disconnected(peer, link_kind, False)

    def _say(self, what: str, inbound: Inbound, reason: str) -> None:
        """Not with every attempt of a peer, or of a stranger, that keeps trying; a reason of
        another kind is told however many there were of others.
        """
        if reason:
            kind = f"{what}, {inbound.kind}"
            self._complaints.say(kind, "%s: %s: %s", self._me.node_id, what, reason)

    def _link_lost(self, peer: NodeId, link_kind: LinkKind) -> None:
        self._listener.disconnected(peer, link_kind, True)
