"""One client connection: bytes in, requests out; answers in, bytes out.

Everything of one socket read is handled in one go: its sends together, other requests one by one.
A frame that is no frame, or is over its limit, closes this connection and no other. While a client
does not read its answers, nothing more is read from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol, cast

from cluster.broker.send_target import SendTarget
from cluster.errors import LocalProtocolError, RemoteProtocolError
from cluster.protocol.frames import Frame, encode_frame
from cluster.protocol.send import SendRequest, SendTemplate
from cluster.protocol.send_own import RequestDecoder
from commitlog.hosts import NO_HOST, Host, pack_host

WRITE_BUFFER_MAX = 4 * 1024 * 1024  # unread answers; above it the connection is not read from

_log = logging.getLogger(__name__)


class Owner(Protocol):
    """What a connection belongs to."""

    def opened(self, connection: ClientConnection) -> bool:
        """False: refuse it, too many are open."""
        ...

    def closed(self, connection: ClientConnection) -> None: ...

    def sends(self, connection: ClientConnection, requests: Sequence[SendRequest]) -> None: ...

    def request(self, connection: ClientConnection, frame: Frame) -> None: ...

    def now(self) -> float: ...


class ClientConnection(asyncio.Protocol):
    """See the module's text.

    `address` and `born_host` are the client's own also when a follower passes its requests on
    (`forwarded_by`). `version`: of its last request, 0 before.
    """

    def __init__(self, owner: Owner, frame_size_max: int) -> None:
        self._owner = owner
        self._decoder = RequestDecoder(frame_size_max)
        self._transport: asyncio.Transport | None = None
        self.address = ""
        self.born_host = pack_host(NO_HOST)
        self.closed = False
        self.forwarded_by: str | None = None
        self.heard_at = 0.0
        self.version = 0
        self.targets: dict[SendTemplate, SendTarget] = {}
        self.targets_epoch = -1
        self.heartbeats: dict[str, Frame] = {}

    # -- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        peer = transport.get_extra_info("peername") or ("0.0.0.0", 0)
        self.set_address(Host(peer[0], peer[1]))
        self.heard_at = self._owner.now()
        if not self._owner.opened(self):
            self.closed = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._transport = None
        self._owner.closed(self)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        self.heard_at = self._owner.now()
        try:
            items = self._decoder.feed(data)
        except RemoteProtocolError as error:
            self._take(error.frames)  # type: ignore[arg-type]
            _log.warning("connection of %s closed: %s", self.address, error)
            self.close()
            return
        self._take(items)

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    # -- in ----------------------------------------------------------------------------------------

    def _take(self, items: Sequence[Frame | SendRequest]) -> None:
        """Runs of sends go together; the order of all else is kept."""
        sends: list[SendRequest] = []
        for item in items:
            if type(item) is SendRequest:
                sends.append(item)
                continue
            if sends:
                self.version = sends[-1].template.version
                self._owner.sends(self, sends)
                sends = []
            assert isinstance(item, Frame)
            self.version = item.version
            self._owner.request(self, item)
        if sends:
            self.version = sends[-1].template.version
            self._owner.sends(self, sends)

    # -- out ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Bytes of whole frames; dropped when the connection is gone."""
        if self._transport is not None and data:
            self._transport.write(data)

    def answer(self, frame: Frame) -> None:
        """One response, or a request of ours to the client."""
        try:
            self.write(encode_frame(frame))
        except LocalProtocolError as error:
            _log.error("an answer to %s cannot be encoded: %s", self.address, error)
            self.close()

    def close(self) -> None:
        """Write what is buffered, then close."""
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def set_address(self, host: Host) -> None:
        """Who the client is: bornHost of what it sends."""
        self.address = str(host)
        self.born_host = pack_host(host)
