"""Frames between peers: how bytes are cut into messages. Pure: no socket, no clock.

    off size field
      0   4  size        bytes behind this field: 12 + head + raw
      4   1  type        FrameType
      5   1  flags       0; in APPEND 1: the follower answers when the entries are written, too
      6   2  reserved    0
      8   4  head_size   bytes of the head
     12   4  crc         CRC-32 of bytes 0-11 and the head
     16   h  head        the fields of the message, fixed per type (wire.py)
    16+h  r  raw         in APPEND, RANGE_REPLY: the log's own bytes, never re-encoded; in SNAPSHOT:
                         bytes of a state; in FORWARD: commands; in CHANNEL: bytes of a group

All integers are big-endian. The crc does not cover `raw`: every byte of it is covered by the
checksums of the records in it (or, in a blank, has to be zero), and the follower verifies those
before it writes. So log bytes are summed once per node and not once more per frame. The raw bytes
of a SNAPSHOT or FORWARD have a checksum in its head.

The decoder reads a frame's size first; a frame over its limit is malformed, and no memory is taken
for it. A malformed frame ends the connection to its sender and has no other effect.
"""

from __future__ import annotations

import enum
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from commitlog.records.checksum import crc32
from dledger.errors import MalformedFrame

FRAME = struct.Struct(">IBBHII")
COVERED = struct.Struct(">IBBHI")
FRAME_SIZE = FRAME.size
#: Control messages and hellos are under 100 bytes; a hello holds four names of at most 255 bytes.
SMALL_FRAME_BYTES_MAX = 4096
#: One frame holds at least one record, and a record may be as long as the largest message
#: (4 MiB body by default, more when raised) beside its properties; 64 MiB bounds a hostile peer.
FRAME_BYTES_MAX = 64 << 20
#: Runs of equal terms in one frame; 1 MiB has at most 21,845 entries, and terms rarely change.
RUNS_MAX = 65_536
_HEAD_MAX = 56 + 16 * RUNS_MAX
_RECEIVE_BYTES = 64 << 10
#: A buffer that had to grow beyond this goes back to the small one when it is empty.
_RECEIVE_BYTES_KEPT_MAX = 4 << 20

_BESIDE_HEAD = FRAME_SIZE - 4  # what `size` counts besides head and raw

assert FRAME_SIZE == 16
assert COVERED.size + 4 == FRAME_SIZE


class FrameType(enum.IntEnum):
    """Types of frames; those below 16 are used by the shell and not by the core.

    See handshake.py, forwards.py, group_clock.py and channels.py.
    """

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    PROOF = 4
    GENERATION = 5
    CLOCK = 6
    FORWARD = 7
    FORWARD_REPLY = 8
    CHANNEL = 9
    VOTE_REQUEST = 16
    VOTE_REPLY = 17
    APPEND = 18
    APPEND_REPLY = 19
    HEARTBEAT = 20
    HEARTBEAT_REPLY = 21
    TIMEOUT_NOW = 22
    READ_INDEX_REQUEST = 23
    READ_INDEX_REPLY = 24
    DISK_REPORT = 25
    SNAPSHOT = 26
    SNAPSHOT_REPLY = 27
    RANGE_REQUEST = 28
    RANGE_REPLY = 29


class Frame(NamedTuple):
    """One frame as views of the receive buffer: valid until the decoder is given more bytes."""

    type: FrameType
    head: memoryview
    raw: memoryview
    flags: int = 0


def pack_frame(kind: FrameType, head: bytes, raw_size: int = 0, flags: int = 0) -> bytes:
    """Frame header and head; `raw_size` bytes must follow on the wire."""
    size = FRAME_SIZE - 4 + len(head) + raw_size
    if size > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {size} bytes is over the limit of {FRAME_BYTES_MAX}")
    crc = crc32(head, crc32(COVERED.pack(size, kind, flags, 0, len(head))))
    return FRAME.pack(size, kind, flags, 0, len(head), crc) + head


#: Of a decoder that waits for the first byte of a frame.
_NO_BUFFER = bytearray()
_NO_VIEW = memoryview(_NO_BUFFER)


class FrameDecoder:
    """Bytes in any portions → frames. Fits asyncio's BufferedProtocol.

        view = decoder.get_buffer()      # read into it
        for frame in decoder.frames(n):  # n bytes were read; use each frame now, keep none

    One buffer per connection, of 64 KiB until a frame needs more, so that an idle connection is
    small; a frame is moved at most once.
    """

    __slots__ = ("_buffer", "_end", "_first_size", "_start", "_view", "size_max")

    def __init__(self, size_max: int = FRAME_BYTES_MAX) -> None:
        self.size_max = size_max  # may be raised, once the peer is known
        self._first_size = min(_RECEIVE_BYTES, FRAME_SIZE + size_max)
        self._buffer, self._view = _NO_BUFFER, _NO_VIEW
        self._start = 0  # first byte not yet given out
        self._end = 0  # behind the last byte received

    def get_buffer(self) -> memoryview:
        """A buffer of at least one byte; of a frame with a known size, all that is missing."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            if len(self._buffer) > _RECEIVE_BYTES_KEPT_MAX:
                self._take(_RECEIVE_BYTES)
            elif not self._buffer:
                self._take(self._first_size)
            return self._view
        wanted = FRAME_SIZE
        if end - start >= FRAME_SIZE:  # `frames` has found its size possible
            wanted = 4 + int.from_bytes(self._view[start : start + 4], "big")
        if start + max(wanted, end - start + 1) > len(self._buffer):
            self._move(wanted)
        return self._view[self._end :]

    def release(self) -> None:
        """Keep no buffer between two frames, unless the last ones needed a large one."""
        if self._start == self._end <= _RECEIVE_BYTES:
            self._start = self._end = 0
            self._buffer, self._view = _NO_BUFFER, _NO_VIEW

    def _move(self, wanted: int) -> None:
        """Bring the begun frame to the front of a buffer that can hold it and as much again."""
        left = self._end - self._start
        source = self._view[self._start : self._end]
        if wanted > len(self._buffer):
            self._take(max(wanted, min(2 * wanted, FRAME_SIZE + self.size_max)))
        self._view[:left] = source
        self._start, self._end = 0, left

    def _take(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)

    def frames(self, received: int) -> Iterator[Frame]:
        """Yield the frames that are whole after `received` more bytes.

        Raises MalformedFrame; the decoder cannot be used after that.
        """
        view, unpack = self._view, FRAME.unpack_from
        start, end = self._start, self._end + received
        self._end = end
        while end - start >= FRAME_SIZE:
            size, kind, flags, reserved, head_size, crc = unpack(view, start)
            if (
                reserved
                or (flags and (flags, kind) != _ASKING_APPEND)
                or not self._possible(size, kind, head_size)
            ):
                raise MalformedFrame(
                    f"no frame begins with size {size}, type {kind}, head {head_size}; "
                    "is this the peer port of the same version?"
                )
            raw_at = start + FRAME_SIZE + head_size
            if raw_at > end:
                return
            head = view[start + FRAME_SIZE : raw_at]
            # Checked before the raw bytes are there: a damaged size would swallow all later frames.
            if crc32(head, crc32(view[start : start + COVERED.size])) != crc:
                raise MalformedFrame(f"the checksum of a frame of type {kind} does not fit it")
            behind = start + 4 + size
            if behind > end:
                return
            self._start = start = behind
            yield _new(Frame, (_TYPES[kind], head, view[raw_at:behind], flags))

    def _possible(self, size: int, kind: int, head_size: int) -> bool:
        """True if size, type and head size are within the limits; no memory is taken yet."""
        if kind in _RAW_KINDS:
            return _BESIDE_HEAD + head_size <= size <= self.size_max and head_size <= _HEAD_MAX
        return size <= SMALL_FRAME_BYTES_MAX and size == _BESIDE_HEAD + head_size and kind in _TYPES


_TYPES = {int(kind): kind for kind in FrameType}
#: To look a member of an enum up on its class takes ten times as long, and every frame needs it.
_KIND_APPEND = FrameType.APPEND
#: The only frame with a flag: an append that wants to be answered when it is written.
_ASKING_APPEND = (1, _KIND_APPEND)
_RAW_KINDS = frozenset(
    map(
        int,
        (
            FrameType.APPEND,
            FrameType.SNAPSHOT,
            FrameType.RANGE_REPLY,
            FrameType.FORWARD,
            FrameType.CHANNEL,
        ),
    ),
)
#: Makes a named tuple from a tuple, in half the time of calling its class.
_new = tuple.__new__


NAME_BYTES_MAX = 255


def pack_name(name: str) -> bytes:
    """Encode a name behind its length. Raises ValueError if it is empty or too long."""
    raw = name.encode()
    if not 0 < len(raw) <= NAME_BYTES_MAX:
        raise ValueError(f"the name {name!r} must have 1 to {NAME_BYTES_MAX} bytes")
    return bytes((len(raw),)) + raw


def read_names(head: bytes, offset: int) -> list[str]:
    """All names from `offset` on. Raises MalformedFrame."""
    names = []
    try:
        while offset < len(head):
            behind = offset + 1 + head[offset]
            if behind > len(head):
                raise MalformedFrame("a name in a hello is cut off")
            name = head[offset + 1 : behind].decode()
            names.append(sys.intern(name))  # those of thousands of connections are the same few
            offset = behind
    except UnicodeDecodeError as error:
        raise MalformedFrame("a name in a hello is no text") from error
    return names
