"""When a node's client ports are open: at once, and for a node that comes back, when it can serve.

Stock clients have such a node in their routes still. What they sent to it would wait here until it
knows who leads, and a refused connection sends them to another node within milliseconds.

    bound ─► first start, or the only node      open, or the start fails
         └─► comes back ─► a leader is known    open ─► another program listens: again in a while
                        └► OPEN_SECONDS_MAX     open: clients are told that nobody leads

Another program can have a port of a node that takes part already: between bound and open, and while
the node opens again on a state that its leader sent. Its vote and its copy of the log are worth
more than its port, so it goes on, says so (log, `dledger_client_ports_closed`, /readyz), hands over
what it leads, and tries again after PAUSE_SECONDS, twice as much each time up to PAUSE_SECONDS_MAX.
A relay port that another program has costs less: clients reach the node itself. So it may lead, is
ready, and name servers are told of the relay when it is open.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.server import ClientServer, bind
from dledger.runtime.complaints import Complaints
from dledger.runtime.owned import Owned

OPEN_SECONDS_MAX: Final = 2.0
"""An election takes less."""
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_MAX: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass
class _Port:
    """`bound`: None while another program has the port."""

    host: str
    port: int
    made: Callable[[], asyncio.Protocol]
    bound: socket.socket | None
    relays: bool

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bind_again(host: str, port: int) -> socket.socket | None:
    """As `bind`; None where another program has the port. Raises OSError for other reasons."""
    try:
        return bind(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return None


class ClientPorts:
    """The client ports of one node, until they are open."""

    def __init__(
        self,
        server: ClientServer,
        leadership: Leadership,
        owned: Owned,
        *,
        hand_over: Callable[[], None],
        relay_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Two things are told.

        Args:
            hand_over: has another node lead, since no client reaches this one.
            relay_changed: a relay port that was closed is open, or the other way round.
        """
        self._server, self._leadership, self._owned = server, leadership, owned
        self._hand_over, self._relay_changed = hand_over, relay_changed
        self._ports: list[_Port] = []
        self._task: asyncio.Task[None] | None = None
        self._pause = PAUSE_SECONDS
        self._again: asyncio.TimerHandle | None = None
        self._complaints = Complaints(_log, owned.time)

    def add(
        self, host: str, port: int, bound: socket.socket | None, *, relays: bool = False
    ) -> None:
        """A socket that `bind` or `bind_again` made. `relays`: of the relay port.

        Raises OSError or ssl.SSLError for certificates that cannot be used: now, since a node that
        takes part already must not end by them.
        """
        try:
            made = self._server.protocol(relays=relays)
        except BaseException:
            if bound is not None:
                bound.close()
            raise
        self._ports.append(_Port(host, port, made, bound, relays))
        if relays and bound is None:
            self._server.closed_relay_ports[self._ports[-1].address] = "another program has it"

    async def start(self, *, comes_back: bool) -> None:
        """Open them now, or later where the node `comes_back`. Raises OSError."""
        if comes_back:
            self._leadership.on_change(self._look)
            self._owned.call_later(OPEN_SECONDS_MAX, self._open_soon)
            return
        while self._ports:
            await self._open(self._ports[0])

    async def close(self) -> None:
        """Open none any more; those that are open are the server's."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._again is not None:
            self._again.cancel()
        ports, self._ports = self._ports, []
        for port in ports:
            if port.bound is not None:
                port.bound.close()
        self._server.closed_ports.clear()
        self._server.closed_relay_ports.clear()

    def _look(self) -> None:
        if self._leadership.serving is Serving.WAITING:
            return
        if self._again is None:
            self._open_soon()
        elif self._leadership.leads and self._server.closed_ports:
            self._hand_over()

    def _open_soon(self) -> None:
        if self._ports and self._task is None:
            self._again, self._task = None, self._owned.create_task(self._open_all())

    async def _open_all(self) -> None:
        for port in list(self._ports):
            try:
                await self._open(port)
            except OSError as error:
                self._stays_closed(port, error)
        self._task = None
        if self._ports:
            self._again = self._owned.call_later(self._pause, self._try_again)
            self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
            if self._leadership.leads and self._server.closed_ports:
                self._hand_over()

    def _try_again(self) -> None:
        self._again = None
        self._open_soon()

    async def _open(self, port: _Port) -> None:
        """Raises OSError; a socket that is bound stays so."""
        if port.bound is None:
            port.bound = bind(port.host, port.port)
        await self._server.start(port.bound, port.made)
        self._ports.remove(port)
        if self._closed(port).pop(port.address, None) is not None:
            _log.info("%s is open now", port.address)
            if port.relays:
                self._relay_changed()

    def _closed(self, port: _Port) -> dict[str, str]:
        return self._server.closed_relay_ports if port.relays else self._server.closed_ports

    def _stays_closed(self, port: _Port, error: OSError) -> None:
        is_news = port.address not in self._closed(port)
        self._closed(port)[port.address] = str(error)
        if port.relays and is_news:
            self._relay_changed()
        self._complaints.say(
            "closed",
            "no client reaches %s: %s; this node keeps its vote and tries again: end the other "
            "program (ss -ltnp says which)",
            port.address,
            error,
        )
