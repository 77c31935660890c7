"""The client port: accepts connections, counts them, closes idle ones.

A node that stops refuses requests before it resets its connections: they are not done here, and it
names the node that leads. Stock clients get code 14, on which they try a send again at once
(retryResponseCodes of Java 4.9.8 to 5.5.0; needRetryCode of Go 2.1.2), Java on another broker name.
Without an answer they would wait for one until the reset.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Sequence

from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.net.connection import ClientConnection, costs_connection
from cluster.broker.kernel.net.router import Router
from cluster.limits import descriptors
from cluster.limits.fair_turns import Neighbours
from cluster.limits.partial_frames import PartialFrames
from cluster.protocol.codes import RequestCode, understands_go_away
from cluster.protocol.frames import Frame, refusal
from cluster.protocol.raw_sends import RawSend
from cluster.protocol.send import SEND_CODES, SendRequest, to_frame
from cluster.security.tls import listening
from dledger.config import TlsMode
from dledger.runtime.complaints import Complaints
from dledger.runtime.listening import listen, stop_listening
from dledger.runtime.owned import Owned

CLOSE_SECONDS = 0.05  # for the last answers; then connections are cut

_log = logging.getLogger(__name__)


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 takes any free one. Raises OSError when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise _taken(host, port, error) from error
    return bound


def _taken(host: str, port: int, error: OSError) -> OSError:
    return OSError(
        error.errno, f"cannot listen on {host}:{port} ({error.strerror}); give another address"
    )


class ClientServer:
    """Owner of all client connections. `left(connection)` is told when one has closed.

    `relayed`: sends that came to the relay port. `closed_ports`, `closed_relay_ports`:
    address → why it is not open yet.
    """

    def __init__(
        self,
        live: LiveSettings,
        router: Router,
        owned: Owned,
        *,
        left: Callable[[ClientConnection], None],
        guarded: Callable[[], bool] = lambda: False,
    ) -> None:
        """`guarded`: True when senders have to be checked before a send is decoded."""
        self._live, self._router, self._owned, self._left = live, router, owned, left
        self._guarded = guarded
        self.now = owned.time  # seconds of the event loop's clock
        self._servers: list[asyncio.Server] = []
        self._stops = False
        self.connections: set[ClientConnection] = set()
        self.refused = self.relayed = 0
        self.closed_ports: dict[str, str] = {}
        self.closed_relay_ports: dict[str, str] = {}
        self.partial_frames = PartialFrames(now=owned.time)
        self.neighbours = Neighbours()
        self.complaints = Complaints(_log, owned.time)

    def protocol(self, *, relays: bool = False) -> Callable[[], asyncio.Protocol]:
        """The protocol of the connections of a port, for `start`. `relays`: of the relay port.

        Raises OSError or ssl.SSLError for certificates that cannot be used.
        """
        config, guarded = self._live.now, self._guarded
        return listening(
            lambda: ClientConnection(
                self, config.frame_size_max, whole_frames=guarded(), is_relay=relays
            ),
            TlsMode(config.tls_mode),
            config.tls_certificate,
            config.tls_key,
            config.tls_client_authority,
        )

    async def start(self, bound: socket.socket, made: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections on a socket that `bind` made.

        Raises OSError where another program bound the port, too, and listens already; the socket
        is the caller's then.
        """
        try:
            server = await listen(made, bound, backlog=descriptors.backlog())
        except OSError as error:
            host, port = bound.getsockname()[:2]
            raise _taken(host, port, error) from error
        self._servers.append(server)

    async def stop_listening(self) -> None:
        """Accept no new connection; open ones stay."""
        for server in self._servers:
            await stop_listening(server)

    async def take_no_more(self) -> None:
        """Take no connection, and refuse requests; answers to earlier ones are still written."""
        self._stops = True
        await self.stop_listening()

    async def close(self) -> None:
        """End every connection, after its buffered answers are written.

        They are reset: what a client has just sent gets no answer, and a Netty client tries it
        elsewhere only then (connection.py).
        """
        await self.take_no_more()
        if self.connections:
            await asyncio.sleep(CLOSE_SECONDS)
        for connection in list(self.connections):
            if connection.is_flushed:
                connection.abort()
            else:
                connection.close()
        if self.connections:
            await asyncio.sleep(CLOSE_SECONDS)
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()

    def who_understands_go_away(self) -> set[ClientConnection]:
        """Connections of clients that connect again when they are told so."""
        return {
            connection
            for connection in self.connections
            if connection.forwarded_by is None and understands_go_away(connection.version)
        }

    def close_idle(self) -> None:
        """Close connections on which no byte came for `idle_seconds_max` seconds."""
        oldest = self._owned.time() - self._live.now.idle_seconds_max
        for connection in list(self.connections):
            if connection.heard_at < oldest:
                connection.close()

    # -- owner of connections ----------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> bool:
        """Take the connection; False, and counted as refused, when too many are open."""
        full = len(self.connections) >= self._live.now.connections_max
        if full or not descriptors.admits(connection.descriptor):
            self._refused(connection, "connections_max" if full else "the limit of open files")
            return False
        self.connections.add(connection)
        return True

    def _refused(self, connection: ClientConnection, limit: str) -> None:
        self.refused += 1
        self.complaints.say(
            "refused",
            "a connection of %s was refused: %d are open, as many as %s allows",
            connection.address,
            len(self.connections),
            limit,
        )

    def closed(self, connection: ClientConnection) -> None:
        """Forget the connection and tell `left`; one that was refused has no effect."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._owned.run(self._left, connection)

    def serve(self, connection: ClientConnection, step: Callable[[], object]) -> None:
        """Run a step of its requests; a mistake in it costs the connection."""
        costs_connection(self._owned, connection, step)

    def sends(self, connection: ClientConnection, requests: Sequence[SendRequest]) -> None:
        """Serve sends that were read together, or refuse them when this node stops."""
        if self._stops:
            self._refuse(connection, map(_whole, requests))
        else:
            self._router.sends(connection, requests)

    def relayed_sends(
        self, connection: ClientConnection, sends: Sequence[SendRequest | RawSend]
    ) -> None:
        """Sends that came to the relay port, counted as such."""
        if self._stops:
            self._refuse(connection, map(_whole, sends))
            return
        self.relayed += len(sends)
        self._router.takes_relayed(connection, sends)

    def request(self, connection: ClientConnection, frame: Frame) -> None:
        """Serve a frame, or refuse it when this node stops."""
        if self._stops:
            self._refuse(connection, [frame])
            return
        self.relayed += connection.is_relay and frame.code in SEND_CODES
        self._router.request(connection, frame)

    def _refuse(self, connection: ClientConnection, frames: Iterable[Frame]) -> None:
        """This node stops. A peer that opens a link has no answer but the reset."""
        for frame in frames:
            asks = not (frame.is_oneway or frame.is_response)
            if asks and frame.code != RequestCode.FORWARD_HELLO:
                connection.answer(refusal(frame, self._router.leads_not()))

    def in_next_turn(self, step: Callable[[], None]) -> object:
        """Run `step` in the next turn of the event loop."""
        return self._owned.call_soon(step)

    def in_seconds(self, seconds: float, step: Callable[[], None]) -> object:
        """Run `step` in so many seconds; the returned handle can cancel it."""
        return self._owned.call_later(seconds, step)

    @property
    def refusals(self) -> int:
        """Sends that were refused so far, of all connections."""
        return self._router.refused_sends


def _whole(send: SendRequest | RawSend) -> Frame:
    return send.read() if isinstance(send, RawSend) else to_frame(send)
