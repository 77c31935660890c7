"""Connections of the admin HTTP: few, each with little to say and little time to say it.

    one more than CONNECTIONS_MAX            the one served longest ago, or never, is closed
    REQUEST_SECONDS_MAX without an answer    closed: half a request, none, or an answer not read
    REQUEST_BYTES_MAX since the last answer  closed

A monitor's request takes milliseconds, so it is answered however many others hold connections open;
and the descriptors that they take are a part of what is kept for the node itself (descriptors.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from dledger.runtime.owned import Owned

CONNECTIONS_MAX = 32
#: Accepted in one go, before any can be closed.
BACKLOG = 16
REQUEST_SECONDS_MAX = 30.0
REQUEST_BYTES_MAX = 64 << 10


class AdminConnections:
    """Makes a protocol per connection around the one that `make` gives; the server's factory."""

    def __init__(self, make: Callable[[], asyncio.Protocol], owned: Owned) -> None:
        self._make, self._owned = make, owned
        self._open: dict[asyncio.BaseTransport, _Connection] = {}  # served longest ago comes first
        #: Connections that were closed for one of the three reasons.
        self.closed = 0

    def __len__(self) -> int:
        return len(self._open)

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self, self._make())

    def opened(self, connection: _Connection) -> None:
        """Keep a new connection; with too many, the one served longest ago is closed."""
        self._open[connection.transport] = connection
        self._give_time(connection)
        if len(self._open) > CONNECTIONS_MAX:
            self.close(next(iter(self._open.values())))

    def served(self, transport: asyncio.BaseTransport | None) -> None:
        """A request that came by it is being answered."""
        connection = self._open.pop(transport, None) if transport is not None else None
        if connection is not None:
            self._open[connection.transport] = connection
            connection.received = 0
            self._give_time(connection)

    def _give_time(self, connection: _Connection) -> None:
        if connection.timer is not None:
            connection.timer.cancel()
        connection.timer = self._owned.call_later(REQUEST_SECONDS_MAX, self.close, connection)

    def close(self, connection: _Connection) -> None:
        """Cut a connection for one of the three reasons, and count it."""
        self.closed += 1
        self.lost(connection)
        connection.transport.abort()

    def lost(self, connection: _Connection) -> None:
        """Forget a connection that has ended, and stop its timer."""
        self._open.pop(connection.transport, None)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None


class _Connection(asyncio.Protocol):
    """Passes received bytes on to aiohttp's protocol, and counts them."""

    transport: asyncio.Transport

    def __init__(self, all_of_them: AdminConnections, inner: asyncio.Protocol) -> None:
        self._all, self._inner = all_of_them, inner
        self.timer: asyncio.TimerHandle | None = None
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._inner.connection_made(transport)
        self._all.opened(self)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self.received > REQUEST_BYTES_MAX:
            self._all.close(self)
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.lost(self)
        self._inner.connection_lost(exc)
