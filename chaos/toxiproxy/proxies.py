"""A proxy: a listener, its connections and its toxics."""

from __future__ import annotations

import asyncio
import socket
import zlib
from random import Random
from typing import Any

from chaos.live.syn_hole import SynHole
from chaos.toxiproxy.addresses import dialled, resolved, split
from chaos.toxiproxy.links import Connection, Counts
from chaos.toxiproxy.metrics import Passed
from chaos.toxiproxy.toxics import STREAMS, Toxic
from commitlog.address import join_address

ACCEPT_AGAIN_SECONDS = 0.1


class Proxy:
    """Passes connections to `listen` on to `upstream`, through toxics by name.

    Methods that change it are called one at a time. Chance is seeded: a connection's draws depend
    on its number and on the toxic's name.
    """

    def __init__(self, name: str, listen: str, upstream: str, seed: int = 0) -> None:
        self.name, self.listen, self.upstream = name, listen, upstream
        self.enabled = False
        self.toxics: dict[str, Toxic] = {}
        self._counts = {stream: Counts() for stream in STREAMS}
        self._seed, self._dialled = seed, 0
        self._listener: socket.socket | None = None
        self._hole: SynHole | None = None
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def to_fields(self) -> dict[str, Any]:
        """As the HTTP contract has it."""
        return {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.enabled,
            "toxics": [toxic.to_fields() for toxic in self.listed()],
        }

    def listed(self) -> list[Toxic]:
        """As the contract lists them: by stream, then in the order in which they came."""
        every = self.toxics.values()
        return [toxic for stream in STREAMS for toxic in every if toxic.stream == stream]

    def passed(self, stream: str) -> Passed:
        """Bytes that went on, and those with the ones that vanished; not those that still wait."""
        count = self._counts[stream]
        waiting = sum(connection.links[stream].waiting for connection in self._connections)
        return Passed(count.received - waiting, count.sent)

    # -- up and down

    async def enable(self) -> None:
        """Listen. Raises OSError when the address is taken, or is none."""
        if not self.enabled:
            self._listen(await resolved(self.listen))
            self.enabled = True
            self._swallow_or_listen()

    async def disable(self) -> None:
        """Connections end, dials are refused."""
        self.enabled = False
        self._refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._connections):
            await connection.close()
        self._connections.clear()

    def _listen(self, address: tuple[str, int]) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listener = socket.create_server(address, family=family)
        listener.setblocking(False)
        self._listener = listener
        host, port = listener.getsockname()[:2]
        self.listen = join_address(host, port)
        self._accept_from(listener)

    def _refuse(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        if self._hole is not None:
            self._hole.close()
            self._hole = None

    def _swallow_or_listen(self) -> None:
        """Dials are answered unless a toxic of ours has it otherwise; open connections live on."""
        swallow = any(toxic.type == "blackhole_syn" for toxic in self.toxics.values())
        if not self.enabled or swallow is (self._hole is not None):
            return
        self._refuse()
        address = split(self.listen)
        if swallow:
            self._hole = SynHole(*address)
        else:
            self._listen(address)

    # -- toxics

    async def add(self, toxic: Toxic) -> None:
        """For new connections and for those that are there."""
        self.toxics[toxic.name] = toxic
        for connection in list(self._connections):
            connection.links[toxic.stream].add(toxic)
        self._swallow_or_listen()

    async def change(self, toxic: Toxic) -> None:
        """The one of this name has other values from now on."""
        self.toxics[toxic.name] = toxic
        for connection in list(self._connections):
            await connection.links[toxic.stream].change(toxic)

    async def remove(self, toxic: Toxic) -> None:
        """Removes the toxic for all bytes that are still to come, as if it had never been there."""
        del self.toxics[toxic.name]
        for connection in list(self._connections):
            await connection.links[toxic.stream].remove(toxic)
        self._swallow_or_listen()

    # -- connections

    def _accept_from(self, listener: socket.socket) -> None:
        if listener is self._listener:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # the caller has hung up; or no more files may be open, which lasts
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            loop.call_later(ACCEPT_AGAIN_SECONDS, self._accept_from, listener)
            return
        task = asyncio.ensure_future(self._connect(client))
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():  # perhaps before it began
                client.close()

        task.add_done_callback(done)

    async def _connect(self, client: socket.socket) -> None:
        try:
            client.setblocking(False)
            target = await dialled(self.upstream)
        except BaseException as error:
            client.close()
            if isinstance(error, OSError):  # the target is away, which the client learns
                return
            raise
        for sock in (client, target):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._dialled += 1
        number = self._dialled

        def random(stream: str, toxic: str) -> Random:
            text = f"{self.name}/{stream}/{toxic}/{number}"
            return Random(self._seed ^ zlib.crc32(text.encode()))

        over = self._connections.discard
        connection = Connection(client, target, self._counts, random, over)
        self._connections.add(connection)
        connection.begin(self.listed())
