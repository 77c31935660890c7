"""When a node's client ports are open: at once, and for a node that comes back, when it can serve.

Stock clients have such a node in their routes still. What they sent to it would wait here until it
knows who leads, and a refused connection sends them to another node within milliseconds.

    bound ─► first start, or the only node      open
         └─► comes back ─► a leader is known    open
                        └► OPEN_SECONDS_MAX     open: clients are told that nobody leads
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.server import ClientServer
from dledger.runtime.owned import Owned

OPEN_SECONDS_MAX = 2.0
"""An election takes less."""


class ClientPorts:
    """The bound sockets of one node, until they are open."""

    def __init__(self, server: ClientServer, leadership: Leadership, owned: Owned) -> None:
        self._server, self._leadership, self._owned = server, leadership, owned
        self._bound: list[tuple[socket.socket, Callable[[], asyncio.Protocol]]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, bound: socket.socket, *, relays: bool = False) -> None:
        """A socket that `bind` made. `relays`: of the relay port.

        Raises OSError or ssl.SSLError for certificates that cannot be used: now, since a node that
        takes part already must not end by them.
        """
        try:
            made = self._server.protocol(relays=relays)
        except BaseException:
            bound.close()
            raise
        self._bound.append((bound, made))

    async def start(self, *, comes_back: bool) -> None:
        """Open them now, or later where the node `comes_back`. Raises OSError."""
        if comes_back:
            self._leadership.on_change(self._look)
            self._owned.call_later(OPEN_SECONDS_MAX, self._open_soon)
        else:
            await self._open()

    async def close(self) -> None:
        """Open none any more; those that are open are the server's."""
        if self._task is not None:
            await asyncio.wait([self._task])
        bound, self._bound = self._bound, []
        for one, _ in bound:
            one.close()

    def _look(self) -> None:
        if self._leadership.serving is not Serving.WAITING:
            self._open_soon()

    def _open_soon(self) -> None:
        if self._bound and self._task is None:
            self._task = self._owned.create_task(self._open())

    async def _open(self) -> None:
        bound, self._bound = self._bound, []
        for one, made in bound:
            await self._server.start(one, made)
