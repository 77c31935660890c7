"""The connection of a link, from dialling to its end: greet, write, wait while the peer is slow.

While the event loop says that its buffer is full, bulk frames go into that buffer up to the limit
and are refused beyond it; control frames wait in a queue of ours, from which the oldest goes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from commitlog.files.system import Buffer
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.handshake import Dialler, LinkKind
from dledger.runtime.channels import Fed
from dledger.runtime.peer_tls import named_nodes
from dledger.runtime.silence import limit_silence
from dledger.wire.frames import SMALL_FRAME_BYTES_MAX, Frame, FrameDecoder, FrameType
from dledger.wire.messages import size_of

#: Above this the loop tells us to pause; then control messages wait in our own queue.
_WRITE_BUFFER_BYTES = 64 << 10


class Outbound(Fed):
    """`greeted`: the peer let us in, or why not. `closed`: why it ended. Times in seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dialler: Dialler,
        queue_bytes_max: int,
        silence_max: float,
    ) -> None:
        self._dialler = dialler
        self._queue_bytes_max, self._silence_max = queue_bytes_max, silence_max
        self._decoder = FrameDecoder(SMALL_FRAME_BYTES_MAX)
        self.transport: asyncio.Transport | None = None
        self._paused = False
        self._waiting: deque[list[Buffer]] | None = None  # control link, while paused
        self._waiting_bytes = 0
        self.greeted: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[Exception] = loop.create_future()

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the greeting; `silence_max` seconds without an acknowledgement of TCP end the
        connection.
        """
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        limit_silence(self.transport, self._silence_max)
        self._dialler.certified = named_nodes(transport.get_extra_info("peercert"))
        self.transport.write(self._dialler.start())

    def get_buffer(self, sizehint: int) -> memoryview:
        """The decoder's own buffer."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the frames of the greeting; after it only a refusal may come, others end the
        connection.
        """
        try:
            for frame in self._decoder.frames(nbytes):
                if self._dialler.peer is not None and frame.type is not FrameType.REFUSED:
                    self._spoke(frame)
                    continue
                answer = self._dialler.receive(frame)
                assert self.transport is not None
                if answer:
                    self.transport.write(answer)
                if self._dialler.peer is not None and not self.greeted.done():
                    self.greeted.set_result(None)
        except (MalformedFrame, PeerRefused) as error:
            self._give_up(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the error to `greeted`, if that waits, and to `closed`; drop frames that wait."""
        self._give_up(exc or ConnectionResetError("the peer closed the connection"))

    def pause_writing(self) -> None:
        """The peer does not read: frames wait here."""
        self._paused = True

    def resume_writing(self) -> None:
        """Send the frames that waited."""
        self._paused = False
        while self._waiting and not self._paused:
            parts = self._waiting.popleft()
            self._waiting_bytes -= size_of(parts)
            self._write(parts)
        if not self._waiting:
            self._waiting = None

    # the link calls these

    @property
    def knows_generations(self) -> bool:
        """The peer has told its generation, so it may be told ours."""
        return self._dialler.compared

    @property
    def knows_clocks(self) -> bool:
        """True if the peer understands CLOCK frames."""
        return self._dialler.knows_clocks

    @property
    def knows_forwards(self) -> bool:
        """Commands may be forwarded to the peer."""
        return self._dialler.knows_forwards

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait to be written to the peer."""
        if self.transport is None or self.transport.is_closing():
            return 0
        return self.transport.get_write_buffer_size() + self._waiting_bytes

    def send(self, parts: list[Buffer]) -> int:
        """Write or queue; returns how many frames were dropped for it."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return 1
        if not self._paused:
            if len(parts) == 1:
                transport.write(parts[0])
            else:
                transport.writelines(parts)
            return 0
        if self._dialler.link_kind is LinkKind.BULK:
            if transport.get_write_buffer_size() + size_of(parts) > self._queue_bytes_max:
                return 1
            self._write(parts)
            return 0
        dropped = 0
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(parts)
        self._waiting_bytes += size_of(parts)
        while self._waiting_bytes > self._queue_bytes_max:
            self._waiting_bytes -= size_of(self._waiting.popleft())
            dropped += 1
        return dropped

    def abort(self) -> None:
        """Close at once, without the queued messages."""
        if self.transport is not None:
            self.transport.abort()

    def rest(self) -> None:
        """As a channel: keep no buffer until the peer speaks."""
        self._decoder.release()

    def _spoke(self, frame: Frame) -> None:
        raise MalformedFrame("a peer spoke on the connection that we dialled")

    def _write(self, parts: list[Buffer]) -> None:
        assert self.transport is not None
        if len(parts) == 1:
            self.transport.write(parts[0])
        else:
            self.transport.writelines(parts)

    def _give_up(self, error: Exception) -> None:
        self._waiting, self._waiting_bytes = None, 0
        if not self.greeted.done():
            self.greeted.set_exception(error)
            self.greeted.exception()  # read: an attempt that timed out does not ask any more
        if not self.closed.done():
            self.closed.set_result(error)
        self.abort()
