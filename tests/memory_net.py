"""Connections in memory, for `virtual_loop.py`: what is written arrives in order, a turn later or
after `latency` seconds."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from typing import Any

EPHEMERAL_FROM = 40_000
NO_DESCRIPTOR = 1 << 30  # no process has so many
Address = tuple[str, int]
Factory = Callable[[], Any]


class MemoryNet:
    """The listeners of one event loop. `latency` is what each way takes, in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.latency = loop, 0.0
        self._servers: dict[Address, MemoryServer] = {}
        self._port = EPHEMERAL_FROM

    def listen(self, factory: Factory, host: str, port: int) -> MemoryServer:
        address = (host, port or self._next_port())
        if address in self._servers:
            raise OSError(errno.EADDRINUSE, f"{address} is in use")
        self._servers[address] = MemoryServer(self, address, factory)
        return self._servers[address]

    def forget(self, address: Address) -> None:
        self._servers.pop(address, None)

    async def connect(
        self, factory: Factory, host: str, port: int, local_host: str
    ) -> tuple[MemoryTransport, Any]:
        await asyncio.sleep(self.latency)
        server = self._servers.get((host, port))
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        own, theirs = (local_host, self._next_port()), (host, port)
        near = MemoryTransport(self, factory(), own, theirs)
        far = MemoryTransport(self, server.factory(), theirs, own)
        near.peer, far.peer = far, near
        near.get_protocol().connection_made(near)
        self.loop.call_soon(far.get_protocol().connection_made, far)
        return near, near.get_protocol()

    def _next_port(self) -> int:
        self._port += 1
        return self._port


class MemoryServer:
    """What `loop.create_server` gives; its one socket only knows its address."""

    def __init__(self, net: MemoryNet, address: Address, factory: Factory) -> None:
        self._net, self._address, self.factory = net, address, factory
        self.sockets = [self]

    def getsockname(self) -> Address:
        return self._address

    def fileno(self) -> int:
        return NO_DESCRIPTOR

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._net.loop

    def close(self) -> None:
        self._net.forget(self._address)

    async def wait_closed(self) -> None:
        return None

    async def __aenter__(self) -> MemoryServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class MemoryTransport(asyncio.Transport):
    """One end. Bytes and the end of the connection come to the other end in the next turn."""

    peer: MemoryTransport

    def __init__(self, net: MemoryNet, protocol: Any, own: Address, theirs: Address) -> None:
        super().__init__({"sockname": own, "peername": theirs})
        self._net, self._protocol = net, protocol
        self._is_closing = self._is_paused = False
        self._on_the_way: deque[Callable[[], None]] = deque()
        self._held: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and data:
            copy = bytes(data)
            self.peer._comes(lambda: self.peer._arrived(copy))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._net.loop.call_soon(self._protocol.connection_lost, None)
            self.peer._comes(self.peer._ended)

    abort = close

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The other end hears the end, and may go on to write."""
        self.peer._comes(self.peer._eof)

    def _comes(self, what: Callable[[], None]) -> None:
        """In order, whatever the order of timers that are due at the same time."""
        self._on_the_way.append(what)
        if self._net.latency:
            self._net.loop.call_later(self._net.latency, lambda: self._on_the_way.popleft()())
        else:
            self._net.loop.call_soon(lambda: self._on_the_way.popleft()())

    def _arrived(self, data: bytes) -> None:
        if self._is_paused:
            self._held.append(data)
        elif not self._is_closing:
            self._protocol.data_received(data)

    def _eof(self) -> None:
        if not self._is_closing and not self._protocol.eof_received():
            self.close()

    def _ended(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        held, self._held = self._held, []
        for data in held:
            self._net.loop.call_soon(self._arrived, data)

    def is_reading(self) -> bool:
        return not self._is_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
