"""Frames between peers: bytes ⇄ messages. Pure: no socket, no clock; the simulator uses it too.

    off size field
      0   4  size        bytes behind this field: 12 + head + raw
      4   1  type        FrameType
      5   1  flags       0
      6   2  reserved    0
      8   4  head_size   bytes of the head
     12   4  crc         CRC-32 of bytes 0-11 and the head
     16   h  head        the fields of the message, fixed per type
    16+h  r  raw         only in APPEND: the log's own bytes, never re-encoded

    APPEND head   term 8 | prev term 8 | prev index 8 | last 8 | commit 8 | position 8
                  | prev chain crc 4 | run count 4 | run count × (term 8 | last 8)

All integers are big-endian. The crc does not cover `raw`: every byte of it is covered by the
checksums of the records in it (or, in a blank, has to be zero), and the follower verifies those
before it writes. So log bytes are summed once per node and not once more per frame.

A frame says how long it is before it is read: over its limit it is malformed, and no memory is
taken for it. A malformed frame costs its sender the connection and nobody anything else.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from commitlog.files import Buffer
from dledger.core.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    ReadIndexReply,
    ReadIndexRequest,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import EntryId, NodeId, TermRun
from dledger.errors import MalformedFrame

FRAME = struct.Struct(">IBBHII")
COVERED = struct.Struct(">IBBHI")
FRAME_SIZE = FRAME.size
#: Control messages and hellos are under 100 bytes; a hello holds four names of at most 255 bytes.
SMALL_FRAME_BYTES_MAX = 4096
#: One frame holds at least one record, and a record may be as long as the largest message
#: (4 MiB body by default, more when raised) beside its properties; 64 MiB bounds a hostile peer.
FRAME_BYTES_MAX = 64 << 20
#: Runs of one frame; a frame of 1 MiB has at most 21,845 entries, and terms rarely change.
RUNS_MAX = 65_536
_HEAD_MAX = 56 + 16 * RUNS_MAX
_RECEIVE_BYTES = 64 << 10
#: A buffer that had to grow beyond this goes back to the small one when it is empty.
_RECEIVE_BYTES_KEPT_MAX = 4 << 20

assert FRAME_SIZE == 16
assert COVERED.size + 4 == FRAME_SIZE


class FrameType(enum.IntEnum):
    """Numbers below 16 belong to the handshake (handshake.py)."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    PROOF = 4
    VOTE_REQUEST = 16
    VOTE_REPLY = 17
    APPEND = 18
    APPEND_REPLY = 19
    HEARTBEAT = 20
    HEARTBEAT_REPLY = 21
    TIMEOUT_NOW = 22
    READ_INDEX_REQUEST = 23
    READ_INDEX_REPLY = 24


class Frame(NamedTuple):
    """One frame as views of the receive buffer: valid until the decoder is given more bytes."""

    type: FrameType
    head: memoryview
    raw: memoryview


def pack_frame(kind: FrameType, head: bytes, raw_size: int = 0) -> bytes:
    """Frame header and head; `raw_size` bytes must follow on the wire."""
    size = FRAME_SIZE - 4 + len(head) + raw_size
    if size > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {size} bytes is over the limit of {FRAME_BYTES_MAX}")
    crc = crc32(head, crc32(COVERED.pack(size, kind, 0, 0, len(head))))
    return FRAME.pack(size, kind, 0, 0, len(head), crc) + head


class FrameDecoder:
    """Bytes in any portions → frames. Fits asyncio's BufferedProtocol.

        view = decoder.get_buffer()      # read into it
        for frame in decoder.frames(n):  # n bytes were read; use each frame now, keep none

    One buffer per connection, of 64 KiB until a frame needs more, so that an idle connection is
    small; a frame is moved at most once.
    """

    __slots__ = ("_buffer", "_end", "_start", "_view", "size_max")

    def __init__(self, size_max: int = FRAME_BYTES_MAX) -> None:
        self.size_max = size_max  # may be raised, once the peer is known
        self._buffer = bytearray(min(_RECEIVE_BYTES, FRAME_SIZE + size_max))
        self._view = memoryview(self._buffer)
        self._start = 0  # first byte not yet given out
        self._end = 0  # behind the last byte received

    def get_buffer(self) -> memoryview:
        """Room for at least one byte, and for the whole of a frame whose size is known."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            if len(self._buffer) > _RECEIVE_BYTES_KEPT_MAX:
                self._take(_RECEIVE_BYTES)
            return self._view
        wanted = FRAME_SIZE
        if end - start >= FRAME_SIZE:  # `frames` has found its size possible
            wanted = 4 + int.from_bytes(self._view[start : start + 4], "big")
        if start + max(wanted, end - start + 1) > len(self._buffer):
            self._move(wanted)
        return self._view[self._end :]

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
        """Whole frames after `received` more bytes. Raises MalformedFrame, for good."""
        self._end += received
        view = self._view
        while self._end - self._start >= FRAME_SIZE:
            start = self._start
            size, kind, flags, reserved, head_size, crc = FRAME.unpack_from(view, start)
            if flags or reserved or not self._possible(size, kind, head_size):
                raise MalformedFrame(
                    f"no frame begins with size {size}, type {kind}, head {head_size}; "
                    "is this the peer port of the same version?"
                )
            raw_at = start + FRAME_SIZE + head_size
            if raw_at > self._end:
                return
            head = view[start + FRAME_SIZE : raw_at]
            # Before the raw bytes are waited for: a damaged size would swallow all that follows.
            if crc32(head, crc32(view[start : start + COVERED.size])) != crc:
                raise MalformedFrame(f"the checksum of a frame of type {kind} does not fit it")
            behind = start + 4 + size
            if behind > self._end:
                return
            self._start = behind
            yield Frame(_TYPES[kind], head, view[raw_at:behind])

    def _possible(self, size: int, kind: int, head_size: int) -> bool:
        """Everything the limits say, before memory is taken."""
        if kind not in _TYPES or size < FRAME_SIZE - 4 + head_size:
            return False
        if kind == FrameType.APPEND:
            return size <= self.size_max and head_size <= _HEAD_MAX
        return size <= SMALL_FRAME_BYTES_MAX and size == FRAME_SIZE - 4 + head_size


_TYPES = {int(kind): kind for kind in FrameType}

_VOTE_REQUEST = struct.Struct(">qqqBB")
_VOTE_REPLY = struct.Struct(">qqBB")
_APPEND = struct.Struct(">qqqqqqII")
_RUN = struct.Struct(">qq")
_APPEND_REPLY = struct.Struct(">qBqqqqq")
_HEARTBEAT = struct.Struct(">qqQ")
_HEARTBEAT_REPLY = struct.Struct(">qQqq")
_TIMEOUT_NOW = struct.Struct(">q")
_READ_REQUEST = struct.Struct(">qQ")
_READ_REPLY = struct.Struct(">qQq")


def encode(message: Message) -> list[Buffer]:
    """Parts to write one after the other; log bytes are passed through, never copied."""
    if isinstance(message, AppendEntries):
        return _encode_append(message)
    kind, head = _PACK[type(message)](message)
    return [pack_frame(kind, head)]


def decode(frame: Frame, sender: NodeId) -> Message:
    """The message in a frame of a connection whose hello named `sender`.

    The `data` of an AppendEntries is a tuple with one view of the receive buffer: whoever wants it
    later than in this turn copies it. Raises MalformedFrame when a field cannot be what it says.
    """
    try:
        return _UNPACK[frame.type](frame, sender)
    except (struct.error, KeyError) as error:
        raise MalformedFrame(
            f"a frame of type {frame.type} has a head of the wrong form"
        ) from error


def size_of(parts: Sequence[Buffer]) -> int:
    """Bytes of an encoded message."""
    return sum(len(part) for part in parts)


def _encode_append(message: AppendEntries) -> list[Buffer]:
    parts = _parts(message.data)
    assert message.size == size_of(parts), "size says what data holds"
    head = _APPEND.pack(
        message.term,
        message.prev.term,
        message.prev.index,
        message.last,
        message.commit,
        message.position,
        message.prev_chain_crc,
        len(message.runs),
    )
    if message.runs:
        head += b"".join([_RUN.pack(*run) for run in message.runs])
    return [pack_frame(FrameType.APPEND, head, message.size), *parts]


def _parts(data: Any) -> Sequence[Buffer]:
    if data is None:
        return ()
    return data if isinstance(data, (tuple, list)) else (data,)


def _decode_append(frame: Frame, sender: NodeId) -> Message:
    head, raw = frame.head, frame.raw
    term, prev_term, prev_index, last, commit, position, prev_chain_crc, count = (
        _APPEND.unpack_from(head)
    )
    if len(head) != _APPEND.size + count * _RUN.size:
        raise MalformedFrame(f"an append announces {count} runs and its head has {len(head)} bytes")
    runs = tuple(map(TermRun._make, _RUN.iter_unpack(head[_APPEND.size :])))
    behind, epoch = prev_index, -1
    for run_term, run_last in runs:
        if run_last <= behind or run_term < epoch:
            raise MalformedFrame("the runs of an append do not rise")
        behind, epoch = run_last, run_term
    if behind != last or bool(runs) != bool(raw) or min(prev_index, prev_term, commit) < -1:
        raise MalformedFrame("the runs of an append do not lead from its prev to its last")
    return AppendEntries(
        sender,
        term,
        EntryId(prev_term, prev_index),
        last,
        commit,
        runs,
        position,
        prev_chain_crc,
        len(raw),
        (raw,) if raw else None,
    )


def _flag(value: int) -> bool:
    if value > 1:
        raise MalformedFrame(f"a flag is {value}, neither 0 nor 1")
    return value == 1


def _decode_vote_request(frame: Frame, sender: NodeId) -> Message:
    term, last_term, last_index, pre, transfer = _VOTE_REQUEST.unpack(frame.head)
    return VoteRequest(sender, term, EntryId(last_term, last_index), _flag(pre), _flag(transfer))


def _decode_vote_reply(frame: Frame, sender: NodeId) -> Message:
    term, request_term, granted, pre = _VOTE_REPLY.unpack(frame.head)
    return VoteReply(sender, term, request_term, _flag(granted), _flag(pre))


def _decode_append_reply(frame: Frame, sender: NodeId) -> Message:
    term, success, prev_index, matched, flushed, conflict_term, conflict_index = (
        _APPEND_REPLY.unpack(frame.head)
    )
    conflict = EntryId(conflict_term, conflict_index)
    return AppendReply(sender, term, _flag(success), prev_index, matched, flushed, conflict)


def _plain(kind: Any, layout: struct.Struct) -> Callable[[Frame, NodeId], Message]:
    """Decoder of a message whose fields are the layout's, in order."""

    def decode_plain(frame: Frame, sender: NodeId) -> Message:
        message: Message = kind(sender, *layout.unpack(frame.head))
        return message

    return decode_plain


_PACK: dict[type, Callable[[Any], tuple[FrameType, bytes]]] = {
    VoteRequest: lambda m: (
        FrameType.VOTE_REQUEST,
        _VOTE_REQUEST.pack(m.term, *m.last, m.pre, m.transfer),
    ),
    VoteReply: lambda m: (
        FrameType.VOTE_REPLY,
        _VOTE_REPLY.pack(m.term, m.request_term, m.granted, m.pre),
    ),
    AppendReply: lambda m: (
        FrameType.APPEND_REPLY,
        _APPEND_REPLY.pack(m.term, m.success, m.prev_index, m.matched, m.flushed, *m.conflict),
    ),
    Heartbeat: lambda m: (FrameType.HEARTBEAT, _HEARTBEAT.pack(m.term, m.commit, m.round)),
    HeartbeatReply: lambda m: (
        FrameType.HEARTBEAT_REPLY,
        _HEARTBEAT_REPLY.pack(m.term, m.round, m.matched, m.flushed),
    ),
    TimeoutNow: lambda m: (FrameType.TIMEOUT_NOW, _TIMEOUT_NOW.pack(m.term)),
    ReadIndexRequest: lambda m: (
        FrameType.READ_INDEX_REQUEST,
        _READ_REQUEST.pack(m.term, m.read_id),
    ),
    ReadIndexReply: lambda m: (
        FrameType.READ_INDEX_REPLY,
        _READ_REPLY.pack(m.term, m.read_id, m.index),
    ),
}

_UNPACK: dict[FrameType, Callable[[Frame, NodeId], Message]] = {
    FrameType.VOTE_REQUEST: _decode_vote_request,
    FrameType.VOTE_REPLY: _decode_vote_reply,
    FrameType.APPEND: _decode_append,
    FrameType.APPEND_REPLY: _decode_append_reply,
    FrameType.HEARTBEAT: _plain(Heartbeat, _HEARTBEAT),
    FrameType.HEARTBEAT_REPLY: _plain(HeartbeatReply, _HEARTBEAT_REPLY),
    FrameType.TIMEOUT_NOW: _plain(TimeoutNow, _TIMEOUT_NOW),
    FrameType.READ_INDEX_REQUEST: _plain(ReadIndexRequest, _READ_REQUEST),
    FrameType.READ_INDEX_REPLY: _plain(ReadIndexReply, _READ_REPLY),
}

#: What may travel on which lane.
BULK_TYPES = frozenset({FrameType.APPEND, FrameType.APPEND_REPLY})
CONTROL_TYPES = frozenset(_UNPACK) - BULK_TYPES
