"""Connections between peers: two lanes to each, dialled by the sender, messages one way only.

    n1 ── control ──► n2     n1 dials n2 twice and sends on these two; what n2 has to say
    n1 ── bulk ─────► n2     travels on the two that n2 dials. A fault of one direction of a
    n1 ◄─ control ─── n2     link is a fault of that direction.
    n1 ◄─ bulk ────── n2

Nothing here blocks and nothing is kept for later: a message for a peer that cannot be reached, or
whose queue is full, is dropped and counted, and the core sends what is still needed again (L3).
Bulk data that does not fit is refused, of control messages the oldest goes. Whoever sends rubbish
loses that connection; whoever is not the peer we want is told why.

`link.py` is one outgoing connection, `inbound.py` one incoming one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from commitlog.files import Buffer
from dledger.config import RaftConfig
from dledger.core.messages import AppendEntries, AppendReply, Message
from dledger.core.types import NodeId
from dledger.handshake import NONCE_SIZE, Hello, Lane, Member, Vouch
from dledger.runtime.inbound import Inbound
from dledger.runtime.link import Link, LinkSettings, LinkStatus
from dledger.wire import encode

_log = logging.getLogger(__name__)

#: Connections that have not said who they are. A peer needs two; the rest is room for strays.
GREETING_MAX = 64


@dataclass(frozen=True, slots=True)
class Listener:
    """What the transport tells its owner; all calls come on the event loop."""

    #: A decoded message; its log bytes are valid during the call only. Raises MalformedFrame to
    #: have the connection closed.
    received: Callable[[Message], None]
    #: An open connection broke: (peer, lane, it was the one that we dialled).
    disconnected: Callable[[NodeId, Lane, bool], None]
    #: A task of ours died of a mistake in it; the node must not go on half deaf.
    died: Callable[[BaseException], None]


class Transport:
    """All connections of one replica."""

    def __init__(
        self,
        config: RaftConfig,
        me: Member,
        listener: Listener,
        jitter: Callable[[], float],
        vouch: Vouch,
    ) -> None:
        self._config, self._me, self._listener, self._vouch = config, me, listener, vouch
        self._members = frozenset(NodeId(name) for name in config.peers)
        self._secret = None if config.secret is None else config.secret.encode()
        self._server: asyncio.Server | None = None
        self._inbound: dict[tuple[NodeId, Lane], Inbound] = {}
        self._greeting: set[Inbound] = set()
        self._said = ""
        self._encoded: tuple[Message | None, list[Buffer]] = (None, [])
        self._links = {
            (peer, lane): Link(
                LinkSettings.of(config, peer, lane, self._secret),
                me,
                vouch,
                jitter,
                self._link_lost,
            )
            for peer in sorted(self._members - {me.node_id})
            for lane in Lane
        }

    async def start(self) -> None:
        """Listen, and begin to dial everybody. Raises OSError when the address is taken."""
        host, port = self._config.listen_address()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._accept, host, port)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{self._me.node_id} cannot listen on {host}:{port} ({error.strerror}); "
                "is another process using this port?",
            ) from error
        for link in self._links.values():
            link.start(self._listener.died)

    @property
    def port(self) -> int:
        """The port that is listened on, also when the configured one is 0."""
        assert self._server is not None
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def stop(self) -> None:
        """Close everything; nothing is reported any more."""
        if self._server is not None:
            self._server.close()
        for link in self._links.values():
            await link.stop()
        for inbound in [*self._inbound.values(), *self._greeting]:
            inbound.close()
        self._inbound.clear()
        self._greeting.clear()

    def send(self, to: NodeId, message: Message) -> None:
        """Queue `message` on the lane of its kind, or drop it."""
        if message is not self._encoded[0]:  # one range for several followers is encoded once
            self._encoded = message, encode(message)
        kind = type(message)
        bulk = kind is AppendEntries or kind is AppendReply
        self._links[to, Lane.BULK if bulk else Lane.CONTROL].send(self._encoded[1])

    def status(self) -> dict[str, LinkStatus]:
        """Each outgoing connection, as "peer/lane"."""
        return {
            f"{peer}/{lane.name.lower()}": link.status()
            for (peer, lane), link in self._links.items()
        }

    # -- incoming --------------------------------------------------------------------------------

    def _accept(self) -> Inbound:
        inbound = Inbound(
            self._me,
            self._members,
            self._secret,
            os.urandom(NONCE_SIZE),
            self._vouch,
            self._config.connection_timeout_ms / 1000,
            self._listener.received,
            self._greeted,
            self._inbound_lost,
        )
        if len(self._greeting) >= GREETING_MAX:
            next(iter(self._greeting)).close()
        self._greeting.add(inbound)
        return inbound

    def _greeted(self, inbound: Inbound, hello: Hello) -> None:
        """A peer has come in. It replaces its older connection, and we dial it now if we do not."""
        self._greeting.discard(inbound)
        peer, lane = hello.sender.node_id, hello.lane
        old = self._inbound.get((peer, lane))
        self._inbound[peer, lane] = inbound
        if old is not None:
            old.close()
        self._links[peer, lane].dial_now()

    def _inbound_lost(self, inbound: Inbound, reason: str) -> None:
        self._greeting.discard(inbound)
        hello = inbound.hello
        if hello is None:
            self._say("closed a connection", reason)
            return
        peer, lane = hello.sender.node_id, hello.lane
        if self._inbound.get((peer, lane)) is not inbound:
            return
        del self._inbound[peer, lane]
        self._say(f"closed {peer}'s connection", reason)
        self._listener.disconnected(peer, lane, False)

    def _say(self, what: str, reason: str) -> None:
        """Once, not with every attempt of a peer that keeps trying."""
        if reason and reason != self._said:
            self._said = reason
            _log.warning("%s: %s: %s", self._me.node_id, what, reason)

    def _link_lost(self, peer: NodeId, lane: Lane) -> None:
        self._listener.disconnected(peer, lane, True)
