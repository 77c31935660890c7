"""Many groups' connections over one: each is a channel of a carrier, which joins two hosts.

    Link of group a ── Channel 1 ─┐                                 ┌─ Channel 1 ── Inbound of a
    Link of group b ── Channel 2 ─┼─► Carrier ── TCP, TLS ── Inbound┼─ Channel 2 ── Inbound of b
    Link of group c ── Channel 3 ─┘        (host_links.py)          └─ Channel 3 ── Inbound of c

    CHANNEL head   number 4 | what 1: 0 bytes, 1 it opens, 2 it ends, 3 a beat: the host is
                   there, and hears the other one (number 1) or not (0), 4 its clocks
    CHANNEL raw    bytes of the channel, at most CHUNK_BYTES_MAX; of clocks: group_clock.py

A channel is a `Transport` to the protocol at each of its ends: it begins with that group's own
hello, with all checks of one, and what is wrong with it ends it alone. The dialler counts numbers
up.

The bytes of one turn of the event loop are written together, so that heartbeats of many groups cost
one system call. While the carrier's socket takes no more, each channel has a queue of its own with
the limits of its group; when it does again, those that wait send a chunk each, in turns: a state or
a backlog of one group delays another's frame by as many chunks as there are such groups.

A host reads all that comes and its groups keep up or drop (transport.py), so nobody grants credits.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from commitlog.files.system import Buffer
from dledger.core.types import NodeId
from dledger.errors import MalformedFrame
from dledger.runtime.owned import Owned
from dledger.wire.frames import FRAME_SIZE, Frame, FrameType, pack_frame

#: More: fewer headers and copies. Less: others' frames wait less behind one group's bulk data.
CHUNK_BYTES_MAX = 64 << 10
_HEAD = struct.Struct(">IB")
#: A frame with a whole chunk.
CHANNEL_FRAME_BYTES_MAX = FRAME_SIZE + _HEAD.size + CHUNK_BYTES_MAX
#: Open at a time on one carrier; a host's groups need two each with each other host.
CHANNELS_MAX = 1 << 16
#: Of a channel, in 32 bits: a thousand groups that a peer does not run call it for days until then.
NUMBER_MAX = (1 << 32) - 1
#: Collected in one turn and written before it is over: what a socket takes at once, about.
_BATCH_BYTES_MAX = 256 << 10
_DATA, _OPEN, _END, _BEAT, _CLOCKS = range(5)


#: Of a transport whose `get_extra_info` asks for none of it.
_NO_EXTRA: dict[str, Any] = {}


class Fed(asyncio.BufferedProtocol):
    """The protocol at one end of a channel: one of thousands, most of which are silent."""

    def rest(self) -> None:
        """Give back the buffer until more bytes come, unless a frame has begun in it."""


class Channel(asyncio.Transport):
    """One group's connection, at one of its ends."""

    def __init__(self, channels: Channels, number: int, protocol: Fed) -> None:
        super().__init__(_NO_EXTRA)
        self._channels, self._protocol, self.number = channels, protocol, number
        self._queue: deque[Buffer] | None = None  # made for the first that waits: few ever do
        self._size = 0
        self._high, self._low = CHUNK_BYTES_MAX, CHUNK_BYTES_MAX // 4
        self._paused = self._closing = self._ended = False

    # asyncio.Transport, as protocols use it

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The carrier's certificate; other facts, such as its socket, are not given out."""
        return self._channels.certificate if name == "peercert" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause the protocol above `high` bytes, let it go on at `low`; as of asyncio."""
        self._high = CHUNK_BYTES_MAX if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Bytes in this channel's own queue; those of the carrier belong to all."""
        return self._size

    def is_closing(self) -> bool:
        """True from the call of `close` or `abort`, or the other end's, on."""
        return self._closing

    def write(self, data: Buffer) -> None:
        """As `writelines`, of one part."""
        self.writelines((data,))

    def writelines(self, parts: Iterable[Buffer]) -> None:
        """Send with the others of this turn; queue while the carrier is full, or if it is much."""
        if self._closing:
            return
        parts = list(parts)
        size = sum(map(len, parts))
        if not self._size and size <= CHUNK_BYTES_MAX and not self._channels.paused:
            self._channels.post(self.number, _DATA, parts, size)
            return
        if self._queue is None:
            self._queue = deque()
        self._queue.extend(parts)
        waits, self._size = self._size > 0, self._size + size
        if size and not waits:
            self._channels.wait(self)
        if self._size > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Send the queue, then end."""
        self._closing = True
        if not self._size:
            self.end(tell=True)

    def abort(self) -> None:
        """End at once, without the queue."""
        self.end(tell=True)

    # its `Channels`

    def take(self) -> tuple[list[Buffer], int]:
        """The next chunk of the queue, and its bytes."""
        taken: list[Buffer] = []
        size = 0
        while self._queue and size < CHUNK_BYTES_MAX:
            part = self._queue.popleft()
            room = CHUNK_BYTES_MAX - size
            if len(part) > room:
                view = memoryview(part)
                self._queue.appendleft(view[room:])
                part = view[:room]
            taken.append(part)
            size += len(part)
        self._size -= size
        if not self._queue:
            self._queue = None
        return taken, size

    def taken(self) -> bool:
        """A chunk was sent: let the protocol write again. True: another one waits."""
        if self._paused and self._size <= self._low:
            self._paused = False
            self._protocol.resume_writing()
        if self._closing and not self._size:
            self.end(tell=True)
        return self._size > 0

    def feed(self, data: memoryview) -> None:
        """Give the protocol bytes of the other end."""
        protocol = self._protocol
        while data and not self._closing:
            view = protocol.get_buffer(-1)
            assert isinstance(view, memoryview), "of all protocols here"
            size = min(len(view), len(data))
            view[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]
        protocol.rest()

    def end(self, error: Exception | None = None, *, tell: bool) -> None:
        """End the channel, with `tell` on both sides; the protocol hears of it in the next turn."""
        if self._ended:
            return
        self._ended = self._closing = True
        self._queue, self._size = None, 0
        self._channels.ended(self, tell)
        self._channels.owned.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        except Exception:  # its group's mistake, not the host's
            self._channels.owned.spared("while a channel ended")


Accept = Callable[[], Fed]


class Channels:
    """All channels of one carrier, at one of its ends.

    Attributes:
        certificate: that the other side of the carrier shows, as of `get_extra_info`.
        certified: the nodes that it names.
    """

    def __init__(
        self,
        write: Callable[[list[Buffer]], None],
        owned: Owned,
        accept: Accept | None = None,
        certified: Collection[NodeId] = (),
        beaten: Callable[[bool], None] = lambda _: None,
        clocks: Callable[[memoryview], None] = lambda _: None,
    ) -> None:
        """`write`: to the carrier; `accept`: makes the protocol of a channel that the other side
        opens, None: it opens none; `beaten`: told of beats, True: this host is heard; `clocks`:
        of the times of the other side's clocks. Raises MalformedFrame.
        """
        self.owned, self.certified = owned, certified
        self.certificate: object = None
        self.paused = False
        self._write, self._accept, self._beaten, self._clocks = write, accept, beaten, clocks
        self._open: dict[int, Channel] = {}
        self._waiting: deque[Channel] = deque()
        self._batch: list[Buffer] = []
        self._batch_bytes = self._last = 0
        self._asked = self._gone = False

    @property
    def is_used_up(self) -> bool:
        """Have all numbers been given away? Then another carrier is wanted."""
        return self._last >= NUMBER_MAX

    def open(self, protocol: Fed) -> Channel:
        """A new channel of ours, made known to its protocol. Raises ConnectionResetError."""
        if self._gone or self.is_used_up:
            raise ConnectionResetError("the connection of the two hosts has ended")
        self._last += 1
        self.post(self._last, _OPEN)
        return self._add(self._last, protocol)

    def _add(self, number: int, protocol: Fed) -> Channel:
        channel = self._open[number] = Channel(self, number, protocol)
        protocol.connection_made(channel)
        return channel

    def heard(self, frame: Frame) -> None:
        """Take a frame of the carrier. Raises MalformedFrame, for the whole carrier."""
        if frame.type is not FrameType.CHANNEL or len(frame.head) != _HEAD.size:
            raise MalformedFrame(f"a frame of type {frame.type} is on a connection of channels")
        number, what = _HEAD.unpack(frame.head)
        channel = self._open.get(number)
        if what == _BEAT:
            self._beaten(number == 1)
        elif what == _CLOCKS:
            self._clocks(frame.raw)
        elif what == _OPEN:
            accept = self._accept
            if accept is None or number != self._last + 1 or len(self._open) >= CHANNELS_MAX:
                raise MalformedFrame(f"channel {number} cannot be opened")
            self._last = number
            self._add(number, accept())
        elif what not in (_DATA, _END) or number > self._last:
            raise MalformedFrame(f"channel {number} is not open")
        elif channel is None:
            pass  # it ended here, which the other side has not heard yet
        elif what == _END:
            channel.end(tell=False)
        else:
            self._feed(channel, frame.raw)

    def _feed(self, channel: Channel, data: memoryview) -> None:
        try:
            channel.feed(data)
        except Exception:  # as asyncio does it: what a protocol raises costs its connection
            self.owned.spared("while a channel's bytes were read")
            channel.abort()

    def post(self, number: int, what: int, parts: Iterable[Buffer] = (), size: int = 0) -> None:
        """Send a frame with the others of this turn."""
        self._batch.append(pack_frame(FrameType.CHANNEL, _HEAD.pack(number, what), size))
        self._batch.extend(parts)
        self._batch_bytes += size
        if self._batch_bytes >= _BATCH_BYTES_MAX:
            self._flush()
        elif not self._asked:
            self._asked = True
            self.owned.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._asked = False
        self._flush()

    def _flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch and not self._gone:
            self._write(batch)

    def beat(self, *, hears: bool) -> None:
        """Say that this host is there, and whether it hears the other one."""
        self.post(int(hears), _BEAT)

    def tell_clocks(self, times: bytes) -> None:
        """Send the times of this host's clocks."""
        self.post(0, _CLOCKS, (times,), len(times))

    def wait(self, channel: Channel) -> None:
        """Send from the queue of a channel, in turns with other channels."""
        self._waiting.append(channel)
        self._send_waiting()

    def pause(self) -> None:
        """The carrier's socket takes no more."""
        self.paused = True

    def resume(self) -> None:
        """The carrier's socket takes bytes again: send the frames that wait."""
        self.paused = False
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and not self.paused:
            channel = self._waiting.popleft()
            parts, size = channel.take()
            if size:
                self.post(channel.number, _DATA, parts, size)
                if channel.taken() and channel not in self._waiting:
                    self._waiting.append(channel)

    def ended(self, channel: Channel, tell: bool) -> None:
        """Forget a channel that has ended; with `tell`, report it to the other host."""
        if self._open.pop(channel.number, None) is not None and tell:
            self.post(channel.number, _END)

    def lost(self, error: Exception | None) -> None:
        """The carrier is gone, and with it all channels."""
        self._gone = True
        for channel in list(self._open.values()):
            channel.end(error, tell=False)
        self._waiting.clear()
