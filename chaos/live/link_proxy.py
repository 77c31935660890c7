"""A TCP proxy for one directed link: the connections that node A dials to node B, and B's answers.

        A ──dials──► [listen] ─forward─► B            A ◄─backward─ B

Each direction has a mode of its own, so a link can be cut one way only:

    PASS     bytes go through
    FREEZE   bytes wait here, in order, and arrive after the heal: "a stale message of an old term"
    DROP     bytes are read and thrown away: a black hole; the connection stays open. Since TCP
             without its middle is no stream, a connection that lost bytes is closed at the heal

`cut` closes what is open and refuses what is new: a process that is gone. New connections during
FREEZE or DROP are accepted, as by a network that swallows packets after the handshake; during
`blackhole_syn` they are not even answered, while open ones live on. A direction may have a *shape*
(shape.py) that delays or damages what passes. What a fault did is counted in `effects`.

Everything is bounded: a frozen direction stops reading, so the kernel's buffers are all that fills.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from chaos.live.shape import CutHere, Repeater, Shape
from chaos.live.syn_hole import RESET, SynHole
from commitlog.address import join_address, split_address

CHUNK_BYTES_MAX = 256 << 10
CONNECT_SECONDS_MAX = 5.0


class Mode(enum.Enum):
    """Bytes of one direction pass, wait (FREEZE), or are read and thrown away (DROP)."""

    PASS = "pass"
    FREEZE = "freeze"
    DROP = "drop"


class _Direction:
    """Mode of one direction, and a bell that rings when it changes."""

    def __init__(self) -> None:
        self.mode = Mode.PASS
        self.shape: Shape | None = None
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

    def reset(self) -> None:
        """Close with RST."""
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.close()

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
        close_delay: seconds between the end of one side and that of the other.
    """

    source: str
    target: str
    listen: str
    forward_to: str
    source_host: str = ""
    forward: _Direction = field(init=False)
    backward: _Direction = field(init=False)
    effects: Counter[str] = field(default_factory=Counter)
    close_delay: float = 0.0
    _hole: SynHole | None = None
    _refusing: bool = False
    _server: asyncio.Server | None = None
    _connections: set[_Connection] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.forward, self.backward = _Direction(), _Direction()

    async def open(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        host, port = split_address(self.listen)
        self._server = await asyncio.start_server(self._accept, host, port)
        if port == 0:
            self.listen = join_address(host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self._fill_hole()
        if self._server is not None:
            self._server.close()
        self._drop_connections()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted lets go of its socket in the loop's next round
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
        """Closes open connections and refuses new ones until `heal`."""
        self._refusing = True
        self.effects["closed"] += len(self._connections)
        self._drop_connections()

    def reset(self) -> None:
        """Every open connection ends with RST; new ones are welcome."""
        self.effects["reset"] += len(self._connections)
        for connection in list(self._connections):
            connection.reset()

    def shape(self, shape: Shape, *, forward: bool = True, backward: bool = True) -> None:
        """Give one or both directions a copy of a shape, until `heal`; it counts into `effects`."""
        shape = replace(shape, effects=self.effects)
        if forward:
            self.forward.shape = shape
        if backward:
            self.backward.shape = shape

    async def blackhole_syn(self) -> None:
        """New connections time out while dialling; open ones live on. Ended by `listen_again`."""
        assert self._server is not None, "not open"
        self._server.close()
        host, port = split_address(self.listen)
        self._hole = SynHole(host, port)
        self.effects["syn-hole"] += 1

    async def listen_again(self) -> None:
        """The end of `blackhole_syn`."""
        self._fill_hole()
        await self.open()

    def _fill_hole(self) -> None:
        if self._hole is not None:
            self._hole.close()
            self._hole = None

    def heal(self) -> None:
        """Everything passes again; connections that lost bytes are closed, since they lie."""
        self._refusing = False
        self.forward.shape = self.backward.shape = None
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

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            # Also when the link was closed while it still dialled, or before it began.
            writer.transport.abort()

        task.add_done_callback(ended)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.effects["refused"] += 1
            _Connection((writer,)).reset()
            return
        host, port = split_address(self.forward_to)
        local = (self.source_host, 0) if self.source_host else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                away = await asyncio.open_connection(host, port, local_addr=local)
        except OSError:  # the target is down, which the source learns; TimeoutError is one
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
            asyncio.ensure_future(_pump(reader, away[1], self.forward, connection, self.effects)),
            asyncio.ensure_future(_pump(away[0], writer, self.backward, connection, self.effects)),
        ]
        try:
            # Either side closing ends the whole connection: our peers use no half-open ones.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if self.close_delay:
                await asyncio.sleep(self.close_delay)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    direction: _Direction,
    connection: _Connection,
    effects: Counter[str],
) -> None:
    repeater = Repeater()
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES_MAX):
            if direction.mode is Mode.FREEZE:
                effects["held bytes"] += len(data)
                await direction.until_not_frozen()
            if direction.mode is Mode.DROP:
                connection.lost_bytes += len(data)
                effects["dropped bytes"] += len(data)
                continue
            shape = direction.shape
            pieces = shape.steps(data, repeater) if shape else iter([(0.0, repeater.rest() + data)])
            try:
                await _pass(pieces, writer)
            except CutHere as cut:
                await _pass(iter([(0.0, cut.passed)]), writer)
                if shape is not None and not shape.cut_politely:
                    connection.reset()
                elif writer.can_write_eof():
                    writer.write_eof()  # the other way goes on for `close_delay`
                    effects["half-closed"] += 1
                return


async def _pass(pieces: Iterator[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    """Write pieces, each after its wait. Raises CutHere when a shape ends the connection."""
    for wait, piece in pieces:
        if wait > 0:
            await asyncio.sleep(wait)
        writer.write(piece)
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

    def between(self, one: str, other: str) -> Iterator[LinkProxy]:
        """Every link from one node to the other or back."""
        return (link for link in self.of(one) if other in {link.source, link.target})

    def effects(self) -> Counter[str]:
        """Counts the effects on bytes and connections so far, over all links."""
        total: Counter[str] = Counter()
        for link in self.links.values():
            total.update(link.effects)
        return total

    def isolate(self, node: str) -> None:
        """Drops all bytes to and from the node; its connections stay open, so neither side sees an
        error."""
        for link in self.of(node):
            link.drop()

    def heal(self) -> None:
        """Ends cuts, modes and shapes of all links; closes connections that lost bytes."""
        for link in self.links.values():
            link.heal()
