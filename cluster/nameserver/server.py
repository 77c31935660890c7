"""The name server's sockets: one protocol object per connection, one timer for leases.

Order of stop: the listener, then the connections. A malformed frame closes its own connection
only; a connection idle for two minutes is closed (clients poll every 30 s; docs/spec/remoting.md
1.4).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import cast

from cluster.errors import RemoteProtocolError
from cluster.limits import descriptors
from cluster.limits.fair_turns import REQUEST_COST, FairQueue, Neighbours, Turn
from cluster.limits.partial_frames import PartialFrames
from cluster.nameserver.access import Guard
from cluster.nameserver.kv_config import KvConfig, LocalKvConfig
from cluster.nameserver.listen import NameServerConfigError, check_reach
from cluster.nameserver.registry import Registry
from cluster.nameserver.requests import WARM_UP_SECONDS, NameServerRequests
from cluster.nameserver.used_seals import UsedSeals
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from cluster.security.access_file import Access
from cluster.security.tls import listening
from commitlog.address import join_address
from dledger.config import TlsMode
from dledger.membership.proof import secret_error
from dledger.runtime.complaints import Complaints
from dledger.runtime.listening import listen_at, stop_listening

IDLE_SECONDS_MAX = 120.0
EXPIRE_PERIOD_SECONDS = 5.0
CONNECTIONS_COUNT_MAX = 10_000
"""One per client process; each costs about 20 KiB."""

_log = logging.getLogger(__name__)


class NameServer:
    """A name server on one address.

    Raises NameServerConfigError for a host beyond this machine without `open_to_network`, and for
    a secret that everybody can guess.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9876,
        *,
        kv_config: KvConfig | None = None,
        warm_up_seconds: float = WARM_UP_SECONDS,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
        open_to_network: bool = False,
        tls_certificate: str | None = None,
        tls_key: str | None = None,
        tls_enforced: bool = False,
        acl_file: Path | None = None,
        cluster_secret: str | None = None,
        relays: bool = True,
        notify_routes: bool = False,
        seals_file: Path | None = None,
    ) -> None:
        """With `tls_certificate` and `tls_key` (PEM files) TLS and plain frames share the port.

        `tls_enforced`: who speaks in the clear is closed. `acl_file`: accounts, as a broker's.
        `cluster_secret`: brokers prove with it that they are nodes. `relays`: routes of stock
        clients have relay names where brokers have relay ports. `notify_routes`: their retry topics
        have notification names there. `seals_file`: where it keeps up to when sealed changes were
        taken. Raises AccountsError, OSError.
        """
        accounts = Access(acl_file) if acl_file is not None else None
        self._guard = Guard(accounts, cluster_secret, _now_ms, UsedSeals(seals_file))
        self._tls = (tls_certificate, tls_key)
        self._tls_mode = TlsMode.PERMISSIVE if tls_certificate else TlsMode.DISABLED
        if tls_enforced:
            self._tls_mode = TlsMode.ENFORCING
        check_reach(host, open_to_network=open_to_network)
        if cluster_secret is not None and (wrong := secret_error(cluster_secret)):
            raise NameServerConfigError(f"the cluster secret {wrong}")
        self._host, self._port = host, port
        self._relays, self._notify_routes = relays, notify_routes
        self._kv_config = kv_config or LocalKvConfig()
        self._warm_up_seconds = warm_up_seconds
        self.idle_seconds_max = idle_seconds_max
        self.registry = Registry()
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self.refused = 0
        self.partial_frames = PartialFrames()
        self.neighbours = Neighbours()
        self.complaints = Complaints(_log, time.monotonic)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """ "host:port" as bound; with port 0, the port that was given."""
        assert self._server is not None, "not started"
        host, port = self._server.sockets[0].getsockname()[:2]
        return join_address(host, port)

    async def start(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        loop = asyncio.get_running_loop()
        requests = NameServerRequests(
            self.registry,
            self._kv_config,
            loop.time,
            guard=self._guard,
            warm_up_seconds=self._warm_up_seconds,
            settings={
                "bindAddress": self._host,
                "listenPort": str(self._port),
                "orderMessageEnable": "true",
            },
            relays=self._relays,
            notify_routes=self._notify_routes,
        )
        made = listening(lambda: _Connection(self, requests), self._tls_mode, *self._tls)
        self._server = await listen_at(made, self._host, self._port, backlog=descriptors.backlog())
        self._tick()

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            await stop_listening(self._server)
        for connection in list(self.connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def __aenter__(self) -> NameServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.registry.expire(now)
        if self._guard.accounts is not None:
            self._guard.accounts.look_again()
        for connection in list(self.connections):
            if now - connection.heard_at > self.idle_seconds_max:
                connection.close()
        period = min(EXPIRE_PERIOD_SECONDS, self.idle_seconds_max / 2)
        self._timer = loop.call_later(period, self._tick)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Connection(asyncio.Protocol):
    """One client or broker. While its answers pile up, the server reads no request from it."""

    def __init__(self, server: NameServer, requests: NameServerRequests) -> None:
        self._server, self._requests = server, requests
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self._frames: FairQueue[Frame] = FairQueue(
            self._serve, self.close, self._decode, server.neighbours
        )
        self.heard_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        self._frames.connected(self._transport)
        self.address = "{}:{}".format(*(transport.get_extra_info("peername") or ("", 0))[:2])
        self.heard_at = asyncio.get_running_loop().time()
        found = transport.get_extra_info("socket")
        full = len(self._server.connections) >= CONNECTIONS_COUNT_MAX
        if full or (found is not None and not descriptors.admits(found.fileno())):
            self._server.refused += 1
            self._server.complaints.say(
                "refused", "a connection of %s was refused: too many are open", self.address
            )
            self._transport.abort()
            return
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._frames.disconnected()
        self._decoder.drop_rest()
        self._server.partial_frames.forget(self)
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        self._frames.read(data)

    def _decode(self, piece: bytes) -> Sequence[Frame]:
        try:
            frames: list[Frame] = self._decoder.feed(piece)
        except RemoteProtocolError as error:
            sentence = "connection of %s closed: %s"
            self._server.complaints.say("malformed", sentence, self.address, error)
            self._frames.end()
            return [frame for frame in error.frames if isinstance(frame, Frame)]
        self._server.partial_frames.holds(self, self._decoder.rest_size, began=bool(frames))
        return frames

    def _serve(self, frames: Sequence[Frame], turn: Turn) -> int:
        """Answer them in order while this turn lasts and the client reads; how many were."""
        for number, frame in enumerate(frames):
            if self._frames.is_paused:
                return number
            self._answer(frame)
            if turn.spend(REQUEST_COST):
                return number + 1
        return len(frames)

    def pause_writing(self) -> None:
        self._frames.pause()

    def resume_writing(self) -> None:
        self._frames.resume()

    def close(self) -> None:
        """Send the queued answers, then end; at once if the client does not read."""
        if self._transport is None:
            return
        if self._frames.is_paused:
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, frame: Frame) -> None:
        if frame.is_response:
            return
        answer = self._requests.handle(frame, self.address)
        if isinstance(answer, Frame):
            self._send(frame, answer)
            return
        task = asyncio.ensure_future(self._answer_later(frame, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_later(self, frame: Frame, answer: Awaitable[Frame]) -> None:
        self._send(frame, await answer)

    def _send(self, request: Frame, answer: Frame) -> None:
        transport = self._transport
        if request.is_oneway or transport is None or transport.is_closing():
            return
        transport.write(encode_frame(answer))
