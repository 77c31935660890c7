"""A connection through a proxy: two sockets, and a link of stages for each direction.

    client ─► reader ─► stages upstream ─► writer ─► target
    client ◄─ writer ◄─ stages downstream ◄─ reader ◄─ target

As in the original the end of a link closes the socket that it writes to, wholly: the other
direction then reads no more, and ends when its stages have let that through. No connection is half
open. A socket is closed with RST when a `reset_peer` was there as its connection began.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random

from chaos.live.syn_hole import RESET
from chaos.toxiproxy.pipes import BUFFERS, PIPES
from chaos.toxiproxy.stages import Channel, Chunk, Stage
from chaos.toxiproxy.toxics import DOWNSTREAM, UPSTREAM, Toxic

CHUNK_BYTES_MAX = 32 << 10  # as the original: slices, bursts and limits are of such chunks


@dataclass(slots=True)
class Counts:
    """Bytes of one stream of a proxy that came, and that went on."""

    received: int = 0
    sent: int = 0


class Link:
    """One direction. `ended` is called once its writer has ended."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        counts: Counts,
        random: Callable[[str], Random],
        ended: Callable[[Link], None],
    ) -> None:
        self.source, self.target = source, target
        self._counts, self._random, self._ended = counts, random, ended
        self._stages: list[Stage] = []
        self._exit = Channel()
        self._entry = self._exit  # what the reader fills: the first stage's source, if there is one
        self._reading = self._stopped = False
        self._arriving: Chunk | None = None
        self._leaving: Chunk | None = None
        self._reader = asyncio.ensure_future(self._read())
        self._writer = asyncio.ensure_future(self._write())

    # -- toxics

    def add(self, toxic: Toxic) -> None:
        """At the end of the chain."""
        if toxic.type not in PIPES or self._exit.closed or self._stage(toxic):
            return  # not of a stream; too late; or there since the connection began
        source = Channel(BUFFERS.get(toxic.type, 1))
        random = self._random(toxic.name)
        stage = Stage(toxic, PIPES[toxic.type], source, self._exit, random)
        self._lead_into(len(self._stages), source)
        self._stages.append(stage)

    async def change(self, toxic: Toxic) -> None:
        """Gives the toxic other values; waiting bytes go on at once."""
        stage = self._stage(toxic)
        if stage is not None and await stage.stop():
            stage.start(toxic)

    async def remove(self, toxic: Toxic) -> None:
        """Removes the toxic; waiting bytes go on at once. A `timeout` has swallowed bytes, so the
        connection ends."""
        stage = self._stage(toxic)
        if stage is None or not await stage.stop():
            return
        if toxic.type == "timeout":
            stage.close()
            return
        at = self._stages.index(stage)
        self._lead_into(at, stage.output)
        stage.leave()
        del self._stages[at]

    def _stage(self, toxic: Toxic) -> Stage | None:
        found = (stage for stage in self._stages if stage.toxic.name == toxic.name)
        return next(found, None)

    def _lead_into(self, at: int, channel: Channel) -> None:
        """Makes the stage before this place fill this channel from now on; without one, the reader
        does."""
        if at:
            self._stages[at - 1].output = channel
        else:
            self._entry = channel

    # -- bytes

    @property
    def waiting(self) -> int:
        """Bytes that came and have neither gone on nor vanished."""
        chunks = [self._arriving, self._leaving, *self._exit.chunks]
        for stage in self._stages:
            chunks += [stage.held, *stage.source.chunks]
        return sum(len(chunk.data) for chunk in chunks if chunk is not None)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while not self._stopped:
                self._reading = True
                data = await loop.sock_recv(self.source, CHUNK_BYTES_MAX)
                self._reading = False
                if not data:
                    break
                self._counts.received += len(data)
                self._arriving = Chunk(data, time.monotonic())
                await self._entry.put(self._arriving)
                self._arriving = None
        self._reading = False
        self._entry.close()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while chunk := await self._exit.get():
                self._leaving = chunk
                await loop.sock_sendall(self.target, chunk.data)
                self._counts.sent += len(chunk.data)
                self._leaving = None
        self._ended(self)

    def read_no_more(self) -> None:
        """Stops reading, because the source is about to be closed; bytes already read go on."""
        self._stopped = True
        if self._reading:
            self._reading = False
            self._reader.cancel()
            # At once: until the cancelled task has run, another socket may have this number.
            asyncio.get_running_loop().remove_reader(self.source)
            self._entry.close()

    def abandon(self) -> None:
        """Ends all stages; their waiting bytes are lost."""
        self._reader.cancel()
        for stage in self._stages:
            stage.abandon()

    async def cancel(self) -> None:
        """Stop everything where it is."""
        self._writer.cancel()
        self.abandon()
        await asyncio.gather(self._reader, self._writer, return_exceptions=True)


class Connection:
    """A client's socket and the target's, and the links between them. `over` is called at the
    end.
    """

    def __init__(
        self,
        client: socket.socket,
        target: socket.socket,
        counts: dict[str, Counts],
        random: Callable[[str, str], Random],
        over: Callable[[Connection], None],
    ) -> None:
        self._sockets = (client, target)
        self._over = over
        self._open = 2
        self.links = {
            UPSTREAM: Link(client, target, counts[UPSTREAM], partial(random, UPSTREAM), self._end),
            DOWNSTREAM: Link(
                target, client, counts[DOWNSTREAM], partial(random, DOWNSTREAM), self._end
            ),
        }

    def begin(self, toxics: Iterable[Toxic]) -> None:
        """With the toxics that are there when it is dialled."""
        for toxic in toxics:
            self.links[toxic.stream].add(toxic)
            if toxic.type == "reset_peer":
                for sock in self._sockets:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def _end(self, link: Link) -> None:
        for other in self.links.values():
            if other.source is link.target:
                other.read_no_more()
        link.target.close()
        self._open -= 1
        if not self._open:
            for each in self.links.values():
                each.abandon()
            self._over(self)

    async def close(self) -> None:
        """Now; bytes that wait are lost."""
        for link in self.links.values():
            await link.cancel()
        for sock in self._sockets:
            sock.close()
