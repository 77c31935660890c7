"""Forwarded commands there and back; what is no forward costs its sender the connection."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.records.checksum import crc32
from dledger.errors import MalformedFrame
from dledger.wire.forwards import (
    Asker,
    Forward,
    ForwardReason,
    ForwardReply,
    pack_forward,
    pack_reply,
    unpack_forward,
    unpack_reply,
)
from dledger.wire.frames import Frame, FrameDecoder, FrameType, pack_frame

numbers = st.integers(0, 2**62)
askers = st.builds(Asker, st.integers(0, 2**63), numbers)
items = st.lists(st.tuples(st.integers(0, 255), numbers, st.binary(max_size=40)), min_size=1)


def frame_of(data: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = data
    (frame,) = decoder.frames(len(data))
    return frame


@given(st.builds(Forward, askers, numbers, numbers, items))
def test_a_forward_comes_as_it_was_sent(forward: Forward) -> None:
    got = unpack_forward(frame_of(b"".join(map(bytes, pack_forward(forward)))))
    assert got[:3] == forward[:3]
    assert [(k, s, bytes(d)) for k, s, d in got.items] == list(forward.items)


@given(st.builds(ForwardReply, askers, st.sampled_from(ForwardReason), st.integers(-1, 2**62)))
def test_a_reply_comes_as_it_was_sent(reply: ForwardReply) -> None:
    assert unpack_reply(frame_of(bytes(pack_reply(reply)[0]))) == reply


HEAD = struct.Struct(">QqqqII")
ITEM = struct.Struct(">BqI")


@pytest.mark.parametrize(
    "head",
    [
        b"short",
        HEAD.pack(1, 1, 1, 1, crc32(b"abc"), 0),
        HEAD.pack(1, 1, 1, 1, crc32(b"abc"), 2) + ITEM.pack(1, 1, 3),
        HEAD.pack(1, 1, 1, 1, crc32(b"abd"), 1) + ITEM.pack(1, 1, 3),
        HEAD.pack(1, 1, 1, 1, crc32(b"abc"), 1) + ITEM.pack(1, 1, 2),
        HEAD.pack(1, 1, 1, 1, crc32(b"abc"), 1) + ITEM.pack(1, 1, 4),
        HEAD.pack(1, 1, 1, 1, crc32(b"abc"), 1) + ITEM.pack(1, -2, 3),
        HEAD.pack(1, 1, -1, 1, crc32(b"abc"), 1) + ITEM.pack(1, 1, 3),
    ],
    ids=["short", "none", "cut", "crc", "rest", "beyond", "sequence", "session"],
)
def test_what_is_no_forward_is_malformed(head: bytes) -> None:
    with pytest.raises(MalformedFrame):
        unpack_forward(frame_of(pack_frame(FrameType.FORWARD, head, 3) + b"abc"))


@pytest.mark.parametrize("head", [b"short", struct.pack(">QqBq", 1, 1, 99, -1)])
def test_what_is_no_reply_is_malformed(head: bytes) -> None:
    with pytest.raises(MalformedFrame):
        unpack_reply(frame_of(pack_frame(FrameType.FORWARD_REPLY, head)))
