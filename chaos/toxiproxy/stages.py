"""A stage of a link: one toxic between two channels of chunks.

    socket ─► channel ─► [stage] ─► channel ─► [stage] ─► channel ─► socket

A stage is stopped and started again while bytes are on their way, so what it has taken and not
given is kept in `held`: no byte is lost by a change, and what waited passes at once after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

from chaos.toxiproxy.toxics import Toxic


@dataclass(slots=True)
class Chunk:
    """Bytes that came together; `at`: when they came, and later by each latency they had."""

    data: bytes
    at: float


class Channel:
    """Chunks in order, few at a time; after `close` those that are in it, then the end."""

    def __init__(self, size: int = 1) -> None:
        self.closed = False
        self._size = size
        self._chunks: deque[Chunk] = deque()
        self._into: Channel | None = None
        self._changed: asyncio.Event | None = None  # there while somebody waits for it

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks in the queue."""
        return self._chunks

    async def get(self) -> Chunk | None:
        """The next one; None at the end."""
        while not self._chunks and not self.closed:
            await self._change()
        if not self._chunks:
            return None
        found = self._chunks.popleft()
        self._ring()
        return found

    async def put(self, chunk: Chunk) -> None:
        """Waits for space, then adds the chunk. After the channel's end chunks are discarded,
        because they are not read any more."""
        channel = self._last()
        while len(channel._chunks) >= channel._size and not channel.closed:
            await channel._change()
            channel = channel._last()
        channel.push(chunk)

    def push(self, chunk: Chunk) -> None:
        """Without waiting for space."""
        if not self.closed:
            self._chunks.append(chunk)
            self._ring()

    def close(self) -> None:
        """Ends the channel, or the one that it flows into; chunks in it can still be taken."""
        channel = self._last()
        channel.closed = True
        channel._ring()

    def flow_into(self, other: Channel) -> None:
        """Moves all chunks, present and future, and the end into the other channel."""
        for chunk in self._chunks:
            other.push(chunk)
        self._chunks.clear()
        if self.closed:
            other.close()
        self._into = other
        self._ring()

    def _last(self) -> Channel:
        channel = self
        while channel._into is not None:
            channel = channel._into
        return channel

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    def _ring(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class Stage:
    """One toxic of one direction of one connection.

    Attributes:
        held: what was taken and neither given nor dropped.
        passed: bytes that a limit has let through.
        doomed: it will end the connection, whatever becomes of its toxic.
        closed: its output has ended.
    """

    def __init__(
        self, toxic: Toxic, pipe: Pipe, source: Channel, output: Channel, random: Random
    ) -> None:
        self.toxic, self.random = toxic, random
        self.source, self.output = source, output
        self.held: Chunk | None = None
        self.passed = 0
        self.doomed = self.closed = False
        self._pipe = pipe
        self._task = asyncio.ensure_future(self._work())

    async def take(self) -> Chunk | None:
        """The next chunk, to be given or dropped; None at the end."""
        self.held = await self.source.get()
        return self.held

    async def give(self, size: int | None = None) -> None:
        """Passes on the chunk that it holds, or the chunk's first `size` bytes."""
        chunk = self.held
        assert chunk is not None, "nothing was taken"
        data = chunk.data if size is None else chunk.data[:size]
        await self.output.put(Chunk(data, chunk.at))
        rest = chunk.data[len(data) :]
        self.held = Chunk(rest, chunk.at) if rest else None

    def drop(self) -> None:
        """Discards the chunk that it holds."""
        self.held = None

    async def stop(self) -> bool:
        """Stops the stage's pipe. Returns False if it has ended, or is going to end, because it
        cannot change then."""
        if not (self.closed or self.doomed):
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        return not (self.closed or self.doomed)

    def abandon(self) -> None:
        """End the work where it is, for good."""
        self._task.cancel()

    def start(self, toxic: Toxic) -> None:
        """Go on as another toxic of the same type, after `stop`."""
        self.toxic = toxic
        self._task = asyncio.ensure_future(self._work())

    def close(self) -> None:
        """The end of the output."""
        self.closed = True
        self.output.close()

    def leave(self) -> None:
        """Let everything pass from now on, after `stop`."""
        if self.held is not None:
            self.output.push(self.held)
        self.source.flow_into(self.output)

    async def _work(self) -> None:
        if self.held is not None:
            await self.give()
        hit = self.random.random() < self.toxic.toxicity
        await (self._pipe if hit else pass_on)(self)
        if self.held is not None:  # what it had kept back
            await self.give()
        self.close()


#: What a toxic does to a stage's chunks; it returns when the output shall end.
Pipe = Callable[[Stage], Awaitable[None]]


async def pass_on(stage: Stage) -> None:
    """No toxic at all."""
    while await stage.take():
        await stage.give()
