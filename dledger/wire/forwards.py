"""Commands that a follower hands to its leader, and their refusals, as frames. Pure.

    FORWARD        incarnation 8 | request id 8 | session 8 | lowest 8 | crc of raw 4 | count 4
                   | count × (kind 1 | sequence 8 | size 4)
    FORWARD raw    the commands, one behind the other
    FORWARD_REPLY  incarnation 8 | request id 8 | reason 1 | sequence 8

Both travel on the bulk link, and only to a peer whose welcome has the flag for them (handshake.py).
What was taken has no reply: every node applies it, the asker as well, and finds its result there.
A reply repeats the asker's incarnation and request id, which no other process of it uses
(replica/request_ids.py), so that nobody is given the refusal of another run. Session, sequence and
lowest are those of machine/sessions.py; `sequence` in a reply is that of the one command that can
never be taken, -1 when the reason is that of all.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from commitlog.files.system import Buffer
from commitlog.records.checksum import crc32
from dledger.core.types import NodeId
from dledger.errors import MalformedFrame
from dledger.wire.frames import Frame, FrameType, pack_frame

_HEAD = struct.Struct(">QqqqII")
_ITEM = struct.Struct(">BqI")
_REPLY = struct.Struct(">QqBq")
#: In one frame: its head stays under 56 KiB.
ITEMS_MAX = 4096
FORWARD_TYPES = frozenset({FrameType.FORWARD, FrameType.FORWARD_REPLY})
#: Told of either frame; raises MalformedFrame.
Forwarded = Callable[[NodeId, Frame], None]


class ForwardReason(enum.IntEnum):
    """Why commands were not taken. Of all but MAYBE that is certain."""

    NOT_LEADER = 1
    BUSY = 2
    TOO_LARGE = 3
    MAYBE = 4
    STOPPED = 5
    NO_MACHINE = 6


class Asker(NamedTuple):
    """Which request, of which run of its node's process."""

    incarnation: int
    request_id: int


class Forward(NamedTuple):
    """`items`: (kind, sequence, bytes) each; the bytes of a received one are views."""

    asker: Asker
    session: int
    lowest: int
    items: Sequence[tuple[int, int, Buffer]]


class ForwardReply(NamedTuple):
    """Why the commands of a request were not taken; `sequence`: of one of them, -1 for all."""

    asker: Asker
    reason: ForwardReason
    sequence: int = -1


def pack_forward(forward: Forward) -> list[Buffer]:
    """Parts to write one after the other."""
    raw = b"".join(data for _, _, data in forward.items)
    head = _HEAD.pack(
        *forward.asker, forward.session, forward.lowest, crc32(raw), len(forward.items)
    )
    head += b"".join(_ITEM.pack(kind, at, len(data)) for kind, at, data in forward.items)
    return [pack_frame(FrameType.FORWARD, head, len(raw)), raw]


def unpack_forward(frame: Frame) -> Forward:
    """Raises MalformedFrame."""
    if len(frame.head) < _HEAD.size:
        raise MalformedFrame("a forward is shorter than its head")
    incarnation, request_id, session, lowest, crc, count = _HEAD.unpack_from(frame.head)
    sizes = frame.head[_HEAD.size :]
    if not 0 < count <= ITEMS_MAX or len(sizes) != count * _ITEM.size:
        raise MalformedFrame(f"a forward announces {count} commands and its head does not fit")
    if crc32(frame.raw) != crc:
        raise MalformedFrame("the bytes of a forward do not fit their checksum")
    items, at = [], 0
    for kind, sequence, size in _ITEM.iter_unpack(sizes):
        items.append((kind, sequence, frame.raw[at : at + size]))
        at += size
    if at != len(frame.raw) or min(session, lowest, *(item[1] for item in items)) < 0:
        raise MalformedFrame("the commands of a forward are not what it says")
    return Forward(Asker(incarnation, request_id), session, lowest, items)


def pack_reply(reply: ForwardReply) -> list[Buffer]:
    """The frame, as one part."""
    head = _REPLY.pack(*reply.asker, reply.reason, reply.sequence)
    return [pack_frame(FrameType.FORWARD_REPLY, head)]


def no_machine(frame: Frame) -> list[Buffer]:
    """The answer of a node that has no state machine; none to a reply. Raises MalformedFrame."""
    if frame.type is not FrameType.FORWARD:
        return []
    return pack_reply(ForwardReply(unpack_forward(frame).asker, ForwardReason.NO_MACHINE))


def unpack_reply(frame: Frame) -> ForwardReply:
    """Raises MalformedFrame."""
    if len(frame.head) != _REPLY.size:
        raise MalformedFrame("the reply to a forward has the wrong size")
    incarnation, request_id, reason, sequence = _REPLY.unpack(frame.head)
    if reason not in _REASONS:
        raise MalformedFrame(f"nothing is refused for reason {reason}")
    return ForwardReply(Asker(incarnation, request_id), ForwardReason(reason), sequence)


_REASONS = frozenset(map(int, ForwardReason))
