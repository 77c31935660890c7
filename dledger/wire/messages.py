"""Messages between peers: bytes ⇄ messages, in the frames of frames.py. Pure; also simulated.

    APPEND head   term 8 | prev term 8 | prev index 8 | last 8 | commit 8 | position 8
                  | prev chain crc 4 | run count 4 | run count × (term 8 | last 8)
                  | index 8 of each entry that changes the group (R20), as a rule none
    APPEND raw    the log's own bytes

    SNAPSHOT head term 8 | anchor term 8 | anchor index 8 | offset 8 | end 8 | position 8 | size 8
                  | chain crc 4 | crc of the state 4 | crc of raw 4 | configuration (members.py)
    SNAPSHOT raw  bytes of the state

The heads of the other messages are their fields, in order; a HEARTBEAT_REPLY ends with its promise,
4, in microseconds, or without one. A HEARTBEAT or HEARTBEAT_REPLY of a group that falls silent
ends with one byte more, 1: hosts that beat understand it (replica/beats.py). All integers are
big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from commitlog.files.system import Buffer
from commitlog.records.checksum import crc32
from dledger.core.configuration import ConfigurationEntry
from dledger.core.messages import (
    AppendEntries,
    AppendReply,
    DiskReport,
    Heartbeat,
    HeartbeatReply,
    Message,
    RangeReply,
    RangeRequest,
    ReadIndexReply,
    ReadIndexRequest,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, TermRun
from dledger.errors import MalformedFrame
from dledger.membership.members import decode_configuration, encode_configuration
from dledger.wire.frames import Frame, FrameType, pack_frame
from dledger.wire.repair_messages import (
    as_append,
    as_reply,
    pack_range_request,
    unpack_range_request,
)

#: Looked up on the class a member of an enum costs ten times as much, and every frame asks.
_KIND_APPEND = FrameType.APPEND
_KIND_APPEND_REPLY = FrameType.APPEND_REPLY
_KIND_SNAPSHOT = FrameType.SNAPSHOT
_HEALTHS = {health.value: health for health in DiskHealth}
#: A named tuple from a tuple, in half the time of calling its class.
_new = tuple.__new__

_VOTE_REQUEST = struct.Struct(">qqqBB")
_VOTE_REPLY = struct.Struct(">qqBB")
_APPEND = struct.Struct(">qqqqqqII")
_RUN = struct.Struct(">qq")
_INDEX = struct.Struct(">q")
_APPEND_REPLY = struct.Struct(">qBqqqqq")
_HEARTBEAT = struct.Struct(">qqQ")
_HEARTBEAT_REPLY = struct.Struct(">qQqq")
#: Behind it where the sender promises something: microseconds.
_PROMISE = struct.Struct(">I")
_PROMISE_US_MAX = (1 << 32) - 1
#: Behind a heartbeat or its reply where silence begins.
_QUIET = b"\1"
_TIMEOUT_NOW = struct.Struct(">q")
_READ_REQUEST = struct.Struct(">qQ")
_READ_REPLY = struct.Struct(">qQq")
_SNAPSHOT = struct.Struct(">qqqqqqqIII")
_SNAPSHOT_REPLY = struct.Struct(">qqq")
_DISK_REPORT = struct.Struct(">qBQ")


def encode(message: Message) -> list[Buffer]:
    """Parts to write one after the other; log bytes are passed through, never copied."""
    if type(message) is AppendEntries:
        return _encode_append(message)
    if type(message) is SnapshotChunk:
        return _encode_snapshot(message)
    if type(message) is RangeReply:
        return _encode_append(as_append(message), FrameType.RANGE_REPLY)
    kind, head = _PACK[type(message)](message)
    return [pack_frame(kind, head)]


def decode(frame: Frame, sender: NodeId) -> Message:
    """The message in a frame of a connection; `sender` as in the connection's hello.

    The `data` of an AppendEntries is a tuple with one view of the receive buffer, that of a
    SnapshotChunk is a view: a caller that needs it after this turn copies it. Raises
    MalformedFrame when a field cannot be what it says.
    """
    try:
        return _UNPACK[frame.type](frame, sender)
    except (struct.error, KeyError) as error:
        raise MalformedFrame(
            f"a frame of type {frame.type} has a head of the wrong form"
        ) from error


def size_of(parts: Sequence[Buffer]) -> int:
    """Bytes of an encoded message."""
    return len(parts[0]) if len(parts) == 1 else sum(map(len, parts))


def _encode_append(message: AppendEntries, kind: FrameType = _KIND_APPEND) -> list[Buffer]:
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
    for run in message.runs:  # one, as a rule
        head += _RUN.pack(*run)
    for entry in message.configurations:  # none, as a rule
        head += _INDEX.pack(entry.index)
    return [pack_frame(kind, head, message.size, message.when_written), *parts]


def _parts(data: Any) -> Sequence[Buffer]:
    if data is None:
        return ()
    return data if isinstance(data, (tuple, list)) else (data,)


def _decode_append(frame: Frame, sender: NodeId) -> AppendEntries:
    head, raw = frame.head, frame.raw
    term, prev_term, prev_index, last, commit, position, prev_chain_crc, count = (
        _APPEND.unpack_from(head)
    )
    flagged: tuple[ConfigurationEntry, ...] = ()
    if len(head) != _APPEND.size + count * _RUN.size:
        flagged = _flagged(head, count, prev_index, last)
        head = head[: _APPEND.size + count * _RUN.size]
    behind, epoch, size = prev_index, -1, len(raw)
    runs: list[TermRun] = []
    for run in _RUN.iter_unpack(head[_APPEND.size :]):
        run_term, run_last = run
        if run_last <= behind or run_term < epoch:
            raise MalformedFrame("the runs of an append do not rise")
        behind, epoch = run_last, run_term
        runs.append(_new(TermRun, run))
    if (
        behind != last
        or (not runs) != (not size)
        or prev_index < -1
        or prev_term < -1
        or commit < -1
    ):
        raise MalformedFrame("the runs of an append do not lead from its prev to its last")
    return AppendEntries(
        sender,
        term,
        _new(EntryId, (prev_term, prev_index)),
        last,
        commit,
        tuple(runs),
        position,
        prev_chain_crc,
        size,
        (raw,) if size else None,
        flagged,
        frame.flags == 1,
    )


def _flagged(
    head: memoryview, count: int, prev_index: int, last: int
) -> tuple[ConfigurationEntry, ...]:
    """Which entries change the group, by their indexes behind the runs."""
    rest = head[_APPEND.size + count * _RUN.size :]
    if len(head) < _APPEND.size + count * _RUN.size or len(rest) % _INDEX.size:
        raise MalformedFrame(f"an append announces {count} runs and its head has {len(head)} bytes")
    behind = prev_index
    for (index,) in _INDEX.iter_unpack(rest):
        if not behind < index <= last:
            raise MalformedFrame("an append flags an entry that is not in it")
        behind = index
    return tuple(ConfigurationEntry(Index(index), None) for (index,) in _INDEX.iter_unpack(rest))


def _encode_snapshot(message: SnapshotChunk) -> list[Buffer]:
    data = message.data or b""
    head = _SNAPSHOT.pack(
        message.term,
        *message.anchor,
        message.offset,
        message.end,
        message.position,
        message.size,
        message.chain_crc,
        message.crc,
        crc32(data),
    )
    head += encode_configuration(message.configuration)
    return [pack_frame(_KIND_SNAPSHOT, head, len(data)), data]


def _decode_snapshot(frame: Frame, sender: NodeId) -> Message:
    (term, anchor_term, anchor_index, offset, end, position, size, chain_crc, crc, data_crc) = (
        _SNAPSHOT.unpack_from(frame.head)
    )
    if crc32(frame.raw) != data_crc:
        raise MalformedFrame("the bytes of a snapshot do not fit their checksum")
    try:
        configuration = decode_configuration(bytes(frame.head[_SNAPSHOT.size :]))
    except ValueError as error:
        raise MalformedFrame(f"the group in a snapshot cannot be read: {error}") from error
    anchor = _new(EntryId, (anchor_term, anchor_index))
    if anchor_index < 0 or not 0 <= end <= position or not 0 <= offset <= size - len(frame.raw):
        raise MalformedFrame("a snapshot says what cannot be")
    return SnapshotChunk(
        sender,
        term,
        anchor,
        configuration,
        offset,
        chain_crc,
        end,
        position,
        size,
        crc,
        frame.raw,
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
    conflict = _new(EntryId, (conflict_term, conflict_index))
    if success > 1:
        _flag(success)  # raises
    return AppendReply(sender, term, success == 1, prev_index, matched, flushed, conflict)


def _decode_disk_report(frame: Frame, sender: NodeId) -> Message:
    term, health, sync_us = _DISK_REPORT.unpack(frame.head)
    return DiskReport(sender, term, _HEALTHS[health], sync_us / 1e6)


def _pack_heartbeat_reply(m: HeartbeatReply) -> bytes:
    head = _HEARTBEAT_REPLY.pack(m.term, m.round, m.matched, m.flushed)
    if not m.promise:
        return head + _QUIET if m.quiet else head
    return head + _PROMISE.pack(min(round(m.promise * 1e6), _PROMISE_US_MAX))


def _decode_heartbeat(frame: Frame, sender: NodeId) -> Message:
    head, size = frame.head, _HEARTBEAT.size
    if len(head) == size:
        return Heartbeat(sender, *_HEARTBEAT.unpack(head))
    if head[size:] != _QUIET:
        raise MalformedFrame("a heartbeat ends with what is none of it")
    term, commit, number = _HEARTBEAT.unpack(head[:size])
    return Heartbeat(sender, term, commit, number, quiet=True)


def _decode_heartbeat_reply(frame: Frame, sender: NodeId) -> Message:
    head, size = frame.head, _HEARTBEAT_REPLY.size
    term, answered, matched, flushed = _HEARTBEAT_REPLY.unpack(head[:size])
    if head[size:] == _QUIET:
        return HeartbeatReply(sender, term, answered, matched, flushed, quiet=True)
    promise = _PROMISE.unpack(head[size:])[0] / 1e6 if len(head) > size else 0.0
    return HeartbeatReply(sender, term, answered, matched, flushed, promise)


def _plain(kind: Any, layout: struct.Struct) -> Callable[[Frame, NodeId], Message]:
    """Decoder of a message with the layout's fields, in order."""

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
        _KIND_APPEND_REPLY,
        _APPEND_REPLY.pack(m.term, m.success, m.prev_index, m.matched, m.flushed, *m.conflict),
    ),
    Heartbeat: lambda m: (
        FrameType.HEARTBEAT,
        _HEARTBEAT.pack(m.term, m.commit, m.round) + (_QUIET if m.quiet else b""),
    ),
    HeartbeatReply: lambda m: (FrameType.HEARTBEAT_REPLY, _pack_heartbeat_reply(m)),
    SnapshotReply: lambda m: (
        FrameType.SNAPSHOT_REPLY,
        _SNAPSHOT_REPLY.pack(m.term, m.anchor, m.offset),
    ),
    TimeoutNow: lambda m: (FrameType.TIMEOUT_NOW, _TIMEOUT_NOW.pack(m.term)),
    RangeRequest: lambda m: (FrameType.RANGE_REQUEST, pack_range_request(m)),
    ReadIndexRequest: lambda m: (
        FrameType.READ_INDEX_REQUEST,
        _READ_REQUEST.pack(m.term, m.read_id),
    ),
    ReadIndexReply: lambda m: (
        FrameType.READ_INDEX_REPLY,
        _READ_REPLY.pack(m.term, m.read_id, m.index),
    ),
    DiskReport: lambda m: (
        FrameType.DISK_REPORT,
        _DISK_REPORT.pack(m.term, m.health.value, round(m.sync_seconds * 1e6)),
    ),
}

_UNPACK: dict[FrameType, Callable[[Frame, NodeId], Message]] = {
    FrameType.VOTE_REQUEST: _decode_vote_request,
    FrameType.VOTE_REPLY: _decode_vote_reply,
    FrameType.APPEND: _decode_append,
    FrameType.APPEND_REPLY: _decode_append_reply,
    FrameType.HEARTBEAT: _decode_heartbeat,
    FrameType.HEARTBEAT_REPLY: _decode_heartbeat_reply,
    FrameType.TIMEOUT_NOW: _plain(TimeoutNow, _TIMEOUT_NOW),
    FrameType.RANGE_REQUEST: lambda frame, sender: unpack_range_request(frame.head, sender),
    FrameType.RANGE_REPLY: lambda frame, sender: as_reply(_decode_append(frame, sender)),
    FrameType.READ_INDEX_REQUEST: _plain(ReadIndexRequest, _READ_REQUEST),
    FrameType.READ_INDEX_REPLY: _plain(ReadIndexReply, _READ_REPLY),
    FrameType.SNAPSHOT: _decode_snapshot,
    FrameType.SNAPSHOT_REPLY: _plain(SnapshotReply, _SNAPSHOT_REPLY),
    FrameType.DISK_REPORT: _decode_disk_report,
}

#: Message types that may travel on each link.
BULK_TYPES = frozenset(
    {FrameType.APPEND, FrameType.APPEND_REPLY, FrameType.SNAPSHOT, FrameType.RANGE_REPLY}
)
CONTROL_TYPES = frozenset(_UNPACK) - BULK_TYPES
