"""The connections between hosts, which carry the channels of their groups (channels.py).

    n1 ── control ──► n2     n1 dials n2 twice, however many groups they share: heartbeats and
    n1 ── bulk ─────► n2     votes of all groups never wait behind log bytes of one (L2).
    n1 ◄─ control ─── n2     What n2's groups have to say travels on the two that n2 dials.
    n1 ◄─ bulk ────── n2

A carrier begins like a connection of a group, with TLS, a hello and the proof of the secret, and
names no group but CARRIER: a node that knows no channels (an older release, or a group in a process
of its own) refuses it like any unknown group. Then each group dials that node by itself, as if it
were alone, and the carrier is tried again after REFUSED_SECONDS.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable

from dledger.config import RaftConfig
from dledger.core.messages import Message
from dledger.core.types import NodeId
from dledger.errors import PeerRefused
from dledger.membership.handshake import Dialler, Hello, LinkKind, Member
from dledger.replica.beats import SPREAD_SECONDS_PER_GROUP
from dledger.runtime.channels import CHANNEL_FRAME_BYTES_MAX, Channels
from dledger.runtime.clock import Clock
from dledger.runtime.group_clock import TELL_SECONDS, GroupClock
from dledger.runtime.host_beats import HostBeats
from dledger.runtime.inbound import Inbound, Side
from dledger.runtime.link import Link, LinkSettings
from dledger.runtime.outbound import Outbound
from dledger.runtime.owned import Owned
from dledger.runtime.peer_port import CARRIER, PeerPort
from dledger.wire.frames import Frame

#: Between two carriers offered to a node that does not take them. More: it is spared the question;
#: after it has become a host, its groups are dialled one by one for longer.
REFUSED_SECONDS = 30.0
#: Groups that are given a new carrier in one turn; the next ones get it after as many times
#: SPREAD_SECONDS_PER_GROUP. A thousand greetings in one turn would stop the loops of both hosts for
#: longer than a follower waits for its leader.
GIVEN_AT_ONCE = 16
#: In the hello of a carrier, in place of a level of records: it understands beats, and clocks.
_KNOWS_BEATS, _KNOWS_CLOCKS = 1, 2


def _vouch(_node: NodeId, _incarnation: int) -> str | None:
    """A carrier is of a process; which life of a node calls is for each group to say."""
    return None


class Carrier(Outbound):
    """A connection to another host that we dialled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dialler: Dialler,
        queue_bytes_max: int,
        silence_max: float,
        owned: Owned,
    ) -> None:
        super().__init__(loop, dialler, queue_bytes_max, silence_max)
        self.channels = Channels(self._write, owned)
        #: Told of its end before the channels are.
        self.lost: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Channels show the certificate that the connection shows."""
        super().connection_made(transport)
        self.channels.certificate = transport.get_extra_info("peercert")

    def connection_lost(self, exc: Exception | None) -> None:
        """All channels end with it."""
        self.lost()
        super().connection_lost(exc)
        self.channels.lost(exc)

    def pause_writing(self) -> None:
        """Channels queue by themselves, each up to its own limit."""
        self.channels.pause()

    def resume_writing(self) -> None:
        """Channels with a queue send of it in turns."""
        self.channels.resume()

    def _spoke(self, frame: Frame) -> None:
        self._decoder.size_max = CHANNEL_FRAME_BYTES_MAX
        self.channels.heard(frame)


class HostLink(Link):
    """Keeps a carrier to one host, from when a group first wants to send there."""

    def __init__(
        self,
        settings: LinkSettings,
        me: Member,
        jitter: Callable[[], float],
        owned: Owned,
        gone: Callable[[NodeId], None],
    ) -> None:
        """`gone`: told of the end of a carrier, before its channels are."""
        super().__init__(settings, lambda: me, _vouch, jitter, self._ended)
        self._gone = gone
        self._owned = owned
        self._waiting: dict[asyncio.Future[Carrier | None], None] = {}
        self._giving: asyncio.TimerHandle | None = None
        self._carrier: Carrier | None = None
        #: The peer takes no carriers, as it said when it was asked last.
        self._is_refused = False
        self.opened = self._opened

    async def carrier(self) -> Carrier | None:
        """The open carrier, as soon as there is one; None: the peer takes none."""
        if self._task is None:
            self.start(self._owned)
        if self._carrier is not None or self._is_refused:
            return self._carrier
        waits: asyncio.Future[Carrier | None] = self._owned.loop.create_future()
        self._waiting[waits] = None
        try:
            return await waits
        finally:  # a group may end while it waits
            self._waiting.pop(waits, None)

    def beat(self, *, hears: bool) -> None:
        """Beat on the carrier, if there is one."""
        if self._carrier is not None:
            self._carrier.channels.beat(hears=hears)

    @property
    def is_open(self) -> bool:
        """Is there a carrier now?"""
        return self._carrier is not None

    def tell(self, times: bytes) -> None:
        """Send the times of this host's clocks on the carrier, if there is one."""
        if self._carrier is not None:
            self._carrier.channels.tell_clocks(times)

    async def stop(self) -> None:
        """Close the carrier; callers that wait for one are told that there is none."""
        await super().stop()
        if self._giving is not None:
            self._giving.cancel()
        self._give(len(self._waiting))

    def _new_outbound(self, dialler: Dialler) -> Outbound:
        settings = self._settings
        loop, limit = self._owned.loop, settings.queue_bytes_max
        return Carrier(loop, dialler, limit, settings.timeout, self._owned)

    def _opened(self, _peer: NodeId) -> None:
        assert isinstance(self._outbound, Carrier)
        self._carrier, self._is_refused = self._outbound, False
        self._carrier.lost = functools.partial(self._gone, self._settings.peer)
        self._give_in_turns()

    def _ended(self, _peer: NodeId, _link_kind: LinkKind) -> None:
        self._carrier = None

    def _note(self, error: Exception) -> None:
        """Log no refusal: each group's own link meets the same one, and logs it."""
        self._error = str(error) or f"no answer within {self._settings.timeout} s"
        self._is_refused = isinstance(error, PeerRefused)
        if self._is_refused:
            self._give_in_turns()

    def _pause(self, pause: float) -> float:
        return REFUSED_SECONDS if self._is_refused else super()._pause(pause)

    def _give_in_turns(self) -> None:
        """The carrier, or that there will be none, to some of the groups; to others a bit later."""
        if self._giving is not None:
            self._giving.cancel()
            self._giving = None
        if self._carrier is None and not self._is_refused:  # the next one is given
            return
        self._give(GIVEN_AT_ONCE)
        if self._waiting:
            pause = GIVEN_AT_ONCE * SPREAD_SECONDS_PER_GROUP
            self._giving = self._owned.call_later(pause, self._give_in_turns)

    def _give(self, count: int) -> None:
        for one in list(itertools.islice(self._waiting, count)):
            del self._waiting[one]
            if not one.done():
                one.set_result(self._carrier)


class HostLinks:
    """All carriers of one host, dialled and accepted. Implements `Carriers` of a group's links."""

    def __init__(
        self,
        config: RaftConfig,
        port: PeerPort,
        jitter: Callable[[], float],
        owned: Owned,
        clock: Clock,
    ) -> None:
        self._config, self._port, self._owned = config, port, owned
        me = NodeId(config.node_id)
        self._me = Member(CARRIER, CARRIER, me, 0, level=_KNOWS_CLOCKS)
        self._members = frozenset(map(NodeId, config.peers))
        #: As the other hosts have said; of all groups here.
        self.clocks = GroupClock(config.node_id, clock)
        self.clocks.follow(self._members)
        self.clocks.behind = self._tell_clocks
        self._telling: asyncio.TimerHandle | None = None
        self.accepted: dict[tuple[NodeId, LinkKind], tuple[Inbound, Channels]] = {}
        secret = None if config.secret is None else config.secret.encode()
        self.links: dict[tuple[NodeId, LinkKind], HostLink] = {}
        peers = sorted(self._members - {me})
        self.beats = HostBeats(config, peers, owned, clock.now, self._beat)
        for peer in peers:
            for link_kind in LinkKind:
                settings = LinkSettings.of(config, peer, link_kind, secret, tls=port.tls)
                self.links[peer, link_kind] = HostLink(
                    settings, self._me, jitter, owned, self.beats.lost
                )
        port.carriers = self._side

    async def ready(self, settings: LinkSettings) -> None:
        """Wait until there is a carrier, or until the peer takes none."""
        link = self._link(settings)
        if link is not None:
            await link.carrier()

    async def connect(self, settings: LinkSettings, outbound: Outbound) -> bool:
        """Open a channel for `outbound`; False: it must be dialled by itself.

        Waits as long as there is no carrier; raises ConnectionResetError.
        """
        link = self._link(settings)
        carrier = None if link is None else await link.carrier()
        if carrier is None:
            return False
        if carrier.channels.is_used_up:
            carrier.abort()  # the next one counts anew
        carrier.channels.open(outbound)
        return True

    def _link(self, settings: LinkSettings) -> HostLink | None:
        """To the host of that peer; None for a peer that is dialled elsewhere."""
        link = self.links.get((settings.peer, settings.link_kind))
        if link is None or settings.address != self._config.dial_address(settings.peer):
            return None
        return link

    def error(self, peer: NodeId, link_kind: LinkKind) -> str:
        """Why there is no carrier; "": there is one, or there will never be."""
        link = self.links.get((peer, link_kind))
        return "" if link is None else link.status().error

    def refuse(self) -> None:
        """Close the carriers of others: this host leaves."""
        for inbound, _ in list(self.accepted.values()):
            inbound.close()

    async def stop(self) -> None:
        """Close all carriers; every channel ends."""
        self.beats.stop()
        if self._telling is not None:
            self._telling.cancel()
        self.refuse()
        for link in self.links.values():
            await link.stop()

    def tell_clocks(self) -> None:
        """Send each other host the times of the clocks here, now and every second (R24)."""
        for peer in self._members - {self._me.node_id}:
            self._tell_clocks(peer)
        self._telling = self._owned.call_later(TELL_SECONDS, self.tell_clocks)

    def tells_clocks(self, peer: NodeId) -> bool:
        """Is this peer told of the clocks here for all groups?"""
        knows = self._level_of(peer) >= _KNOWS_CLOCKS
        return knows and self.links[peer, LinkKind.CONTROL].is_open

    def _tell_clocks(self, peer: NodeId) -> None:
        if self.tells_clocks(peer):
            self.links[peer, LinkKind.CONTROL].tell(self.clocks.times_for(peer))

    def _level_of(self, peer: NodeId) -> int:
        """As the host said when it called us; 0: it does not."""
        accepted = self.accepted.get((peer, LinkKind.CONTROL))
        hello = None if accepted is None else accepted[0].hello
        return 0 if hello is None else hello.sender.level

    def _beat(self, peer: NodeId, hears: bool) -> None:
        """Only to a host that calls us and knows beats: another one does not beat to us either."""
        if self._level_of(peer) >= _KNOWS_BEATS:
            self.links[peer, LinkKind.CONTROL].beat(hears=hears)

    # -- incoming --------------------------------------------------------------------------------

    def _side(self) -> Side:
        return Side(
            self._me,
            self._members,
            _vouch,
            _no_message,
            self._greeted,
            self._lost,
            self._owned,
            channels=self._heard,
        )

    def _greeted(self, inbound: Inbound, hello: Hello) -> None:
        peer, link_kind = hello.sender.node_id, hello.link_kind
        old = self.accepted.get((peer, link_kind))
        certified = inbound.certified
        channels = Channels(
            lambda parts: inbound.write_all(parts),
            self._owned,
            lambda: self._port.accept_channel(certified),
            certified,
            lambda hears_us: self.beats.heard(peer, hears_us=hears_us),
            functools.partial(self.clocks.heard, peer),
        )
        self.accepted[peer, link_kind] = inbound, channels
        if old is not None:
            self.beats.lost(peer)
            old[1].lost(None)
            old[0].close()
        self.links[peer, link_kind].dial_now()

    def _heard(self, inbound: Inbound, frame: Frame) -> None:
        hello = inbound.hello
        assert hello is not None
        current, channels = self.accepted[hello.sender.node_id, hello.link_kind]
        if current is inbound:
            channels.heard(frame)

    def _lost(self, inbound: Inbound, _reason: str) -> None:
        hello = inbound.hello
        assert hello is not None
        key = (hello.sender.node_id, hello.link_kind)
        if key in self.accepted and self.accepted[key][0] is inbound:
            _, channels = self.accepted.pop(key)
            self.beats.lost(hello.sender.node_id)
            channels.lost(None)


def _no_message(_message: Message) -> None:
    raise AssertionError("a carrier takes no messages of a group")
