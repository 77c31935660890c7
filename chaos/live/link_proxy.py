"""A TCP proxy for one directed link: what node A says to node B when A dialled, and the answers.

        A ──dials──► [listen] ─forward─► B            A ◄─backward─ B

Each direction has a mode of its own, so a link can be cut one way only:

    PASS     bytes go through
    FREEZE   bytes wait here, in order, and arrive after the heal: "a stale message of an old term"
    DROP     bytes are read and thrown away: a black hole; the connection stays open. Since TCP
             without its middle is no stream, a connection that lost bytes is closed at the heal

`cut` closes what is open and refuses what is new: a process that is gone. New connections during
FREEZE or DROP are accepted, as by a network that swallows packets after the handshake.

Everything is bounded: a frozen direction stops reading, so the kernel's buffers are all that fills.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CHUNK_BYTES_MAX = 256 << 10
CONNECT_SECONDS_MAX = 5.0


class Mode(enum.Enum):
    PASS = "pass"
    FREEZE = "freeze"
    DROP = "drop"


class _Direction:
    """Mode of one direction, and a bell that rings when it changes."""

    def __init__(self) -> None:
        self.mode = Mode.PASS
        self._changed = asyncio.Event()

    def set(self, mode: Mode) -> None:
        self.mode = mode
        self._changed.set()
        self._changed = asyncio.Event()

    async def until_not_frozen(self) -> None:
        while self.mode is Mode.FREEZE:
            await self._changed.wait()


@dataclass(slots=True, eq=False)
class _Connection:
    writers: tuple[asyncio.StreamWriter, ...]
    lost_bytes: int = 0

    def close(self) -> None:
        for writer in self.writers:
            # abort: a FIN would say goodbye politely, which a lost network does not do.
            writer.transport.abort()


@dataclass(slots=True)
class LinkProxy:
    """One directed link; `await open()` before use, `await close()` after.

    Attributes:
        source, target: names of the nodes.
        listen: "host:port" that the source dials.
        forward_to: "host:port" of the target itself.
        source_host: address that the proxy dials from, "" for any.
    """

    source: str
    target: str
    listen: str
    forward_to: str
    source_host: str = ""
    forward: _Direction = field(init=False)
    backward: _Direction = field(init=False)
    _refusing: bool = False
    _server: asyncio.Server | None = None
    _connections: set[_Connection] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.forward, self.backward = _Direction(), _Direction()

    async def open(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        host, _, port = self.listen.rpartition(":")
        self._server = await asyncio.start_server(self._accept, host, int(port))

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        self._drop_connections()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    # -- faults

    def freeze(self, *, forward: bool = True, backward: bool = True) -> None:
        """Hold bytes back until `heal`."""
        self._set(Mode.FREEZE, forward, backward)

    def drop(self, *, forward: bool = True, backward: bool = True) -> None:
        """Swallow bytes until `heal`."""
        self._set(Mode.DROP, forward, backward)

    def cut(self) -> None:
        """Close what is open, refuse what is new, until `heal`."""
        self._refusing = True
        self._drop_connections()

    def heal(self) -> None:
        """Everything passes again; connections that lost bytes are closed, since they lie."""
        self._refusing = False
        self._set(Mode.PASS, True, True)
        for connection in [c for c in self._connections if c.lost_bytes]:
            connection.close()

    def _set(self, mode: Mode, forward: bool, backward: bool) -> None:
        if forward:
            self.forward.set(mode)
        if backward:
            self.backward.set(mode)

    def _drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.close()

    # -- traffic

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        host, _, port = self.forward_to.rpartition(":")
        local = (self.source_host, 0) if self.source_host else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                away = await asyncio.open_connection(host, int(port), local_addr=local)
        except OSError:
            # The target is down; the source learns it as it would without us. TimeoutError is one.
            writer.transport.abort()
            return
        connection = _Connection((writer, away[1]))
        self._connections.add(connection)
        try:
            await self._pump_both(reader, writer, away, connection)
        finally:
            connection.close()
            self._connections.discard(connection)

    async def _pump_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        away: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        connection: _Connection,
    ) -> None:
        pumps = [
            asyncio.ensure_future(_pump(reader, away[1], self.forward, connection)),
            asyncio.ensure_future(_pump(away[0], writer, self.backward, connection)),
        ]
        try:
            # Either side closing ends the whole connection: our peers use no half-open ones.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    direction: _Direction,
    connection: _Connection,
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES_MAX):
            await direction.until_not_frozen()
            if direction.mode is Mode.DROP:
                connection.lost_bytes += len(data)
                continue
            writer.write(data)
            await writer.drain()


class LinkMesh:
    """Directed links between some nodes, by a name each; opened and closed together."""

    def __init__(self, links: Mapping[str, LinkProxy]) -> None:
        self.links = dict(links)

    async def __aenter__(self) -> LinkMesh:
        for link in self.links.values():
            await link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(link.close() for link in self.links.values()))

    def of(self, node: str) -> Iterator[LinkProxy]:
        """Every link that ends at the node."""
        return (link for link in self.links.values() if node in {link.source, link.target})

    def isolate(self, node: str) -> None:
        """Nothing reaches the node and nothing leaves it; nobody is told."""
        for link in self.of(node):
            link.drop()

    def heal(self) -> None:
        for link in self.links.values():
            link.heal()
