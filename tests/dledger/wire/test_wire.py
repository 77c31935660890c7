"""Frames: every message there and back, in any portions; nothing hostile costs memory."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, Term, TermRun
from dledger.errors import MalformedFrame
from dledger.membership.handshake import VERSION
from dledger.replica.disk_watch import DiskWatch, SyncTimes
from dledger.wire import frames
from dledger.wire import messages as wire
from dledger.wire.frames import FrameType
from dledger.wire.repair_messages import as_reply

N1 = NodeId("n1")
numbers = st.integers(-1, 2**62)
counts = st.integers(0, 2**62)
ids = st.builds(EntryId, numbers, numbers)
flags = st.booleans()


@st.composite
def appends(draw: st.DrawFn) -> AppendEntries:
    prev = EntryId(Term(draw(st.integers(-1, 9))), Index(draw(st.integers(-1, 2**40))))
    term, last = max(prev.term, 0), prev.index
    runs = []
    for rise, length in draw(st.lists(st.tuples(counts, st.integers(1, 9)), max_size=4)):
        term, last = Term(term + rise % 7), Index(last + length)
        runs.append(TermRun(term, last))
    raw = draw(st.binary(min_size=1, max_size=200)) if runs else b""
    return AppendEntries(
        sender=N1,
        term=Term(term + 1),
        prev=prev,
        last=last,
        commit=Index(draw(numbers)),
        runs=tuple(runs),
        position=draw(counts),
        prev_chain_crc=draw(st.integers(0, 2**32 - 1)),
        size=len(raw),
        data=(raw,) if raw else None,
        when_written=draw(flags),
    )


messages = st.one_of(
    appends(),
    appends().map(as_reply),
    st.builds(RangeRequest, st.just(N1), counts, ids, numbers, st.integers(0, 2**32 - 1)),
    st.builds(VoteRequest, st.just(N1), numbers, ids, flags, flags),
    st.builds(VoteReply, st.just(N1), numbers, numbers, flags, flags),
    st.builds(AppendReply, st.just(N1), numbers, flags, numbers, numbers, numbers, ids),
    st.builds(Heartbeat, st.just(N1), numbers, numbers, counts),
    st.builds(
        HeartbeatReply,
        st.just(N1),
        numbers,
        counts,
        numbers,
        numbers,
        st.integers(0, 2**32 - 1).map(lambda micros: micros / 1e6),
    ),
    st.builds(TimeoutNow, st.just(N1), numbers),
    st.builds(ReadIndexRequest, st.just(N1), numbers, counts),
    st.builds(ReadIndexReply, st.just(N1), numbers, counts, numbers),
    st.builds(
        DiskReport,
        st.just(N1),
        numbers,
        st.sampled_from(DiskHealth),
        st.integers(0, 10**10).map(lambda micros: micros / 1e6),
    ),
)


def flatten(message: Message) -> bytes:
    return b"".join(wire.encode(message))


def feed(decoder: frames.FrameDecoder, data: bytes, step: int) -> list[Message]:
    """Give the bytes in portions of at most `step`; keep what comes out, with its data copied."""
    got: list[Message] = []
    while data:
        room = decoder.get_buffer()
        portion = data[: min(step, len(room))]
        room[: len(portion)] = portion
        data = data[len(portion) :]
        for frame in decoder.frames(len(portion)):
            got.append(keep(wire.decode(frame, N1)))
    return got


def keep(message: Message) -> Message:
    if isinstance(message, AppendEntries | RangeReply) and message.data is not None:
        return replace(message, data=(bytes(message.data[0]),))
    return message


@settings(max_examples=150, deadline=None)
@given(st.lists(messages, min_size=1, max_size=4), st.integers(1, 400))
def test_every_message_comes_back_in_any_portions(sent: list[Message], step: int) -> None:
    assert feed(frames.FrameDecoder(), b"".join(map(flatten, sent)), step) == sent


def sample(raw: bytes) -> AppendEntries:
    runs = (TermRun(Term(2), Index(5)), TermRun(Term(3), Index(9)))
    return AppendEntries(
        N1, Term(3), EntryId(Term(2), Index(4)), Index(9), Index(4), runs, 777, 5, len(raw), (raw,)
    )


def test_only_an_append_has_a_flag() -> None:
    good = frames.pack_frame(frames.FrameType.APPEND, b"", flags=2)
    other = frames.pack_frame(frames.FrameType.HEARTBEAT, bytes(24), flags=1)
    for frame in (good, other):
        with pytest.raises(MalformedFrame, match="no frame begins"):
            feed(frames.FrameDecoder(), frame, 1 << 20)


def test_every_single_split_of_two_frames() -> None:
    sent: list[Message] = [sample(b"abcde"), Heartbeat(N1, Term(3), Index(9), 12)]
    data = b"".join(map(flatten, sent))
    for cut in range(len(data) + 1):
        decoder = frames.FrameDecoder()
        assert feed(decoder, data[:cut], 1 << 20) + feed(decoder, data[cut:], 1 << 20) == sent


def test_large_frames_arrive_whole_and_the_buffer_shrinks_again() -> None:
    raw = bytes(range(256)) * (6 << 12)  # 6 MiB
    decoder = frames.FrameDecoder()
    assert len(decoder.get_buffer()) == 64 << 10
    sent: list[Message] = [sample(raw), sample(raw[:-1]), Heartbeat(N1, Term(3), Index(9), 12)]
    assert feed(decoder, b"".join(map(flatten, sent)), 1 << 17) == sent
    assert len(decoder.get_buffer()) == 64 << 10


def test_log_bytes_are_passed_through_and_not_copied() -> None:
    raw = memoryview(bytearray(1000))
    parts = wire.encode(sample(raw))  # type: ignore[arg-type]
    assert parts[1] is raw
    assert wire.size_of(parts) == len(parts[0]) + 1000


@pytest.mark.parametrize(
    ("size", "kind", "head_size"),
    [
        (frames.FRAME_BYTES_MAX + 1, 18, 56),  # oversized append
        (0xFFFFFFFF, 18, 56),
        (5000, 20, 4988),  # oversized control frame
        (28, 99, 16),  # unknown type
        (11, 20, 0),  # smaller than a header
        (40, 20, 24),  # raw bytes where none belong
        (100, 18, 200),  # head longer than the frame
        (0x47455420, 0x2F, 0x48545450),  # "GET /": another protocol
    ],
)
def test_an_impossible_header_is_malformed_before_memory_is_taken(
    size: int, kind: int, head_size: int
) -> None:
    decoder = frames.FrameDecoder()
    with pytest.raises(MalformedFrame):
        feed(decoder, frames.FRAME.pack(size, kind, 0, 0, head_size, 0), 1 << 20)
    assert len(decoder._buffer) <= 64 << 10


def test_a_begun_frame_of_impossible_size_takes_no_memory_either() -> None:
    """A size is believed only when the whole header was found possible."""
    decoder = frames.FrameDecoder()
    feed(decoder, b"\xff\xff\xff\xff", 4)
    assert len(decoder.get_buffer()) <= 64 << 10


def test_every_flipped_bit_of_a_frame_is_noticed_or_is_log_data() -> None:
    data = flatten(sample(b"abcde"))
    for bit in range(8 * (len(data) - 5)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        decoder = frames.FrameDecoder(size_max=1000)
        try:
            assert feed(decoder, bytes(damaged), 1 << 20) == [], "at most it waits for more"
        except MalformedFrame:
            continue


@pytest.mark.parametrize(
    "change",
    [
        {"last": Index(8)},
        {"last": Index(10)},
        {"runs": (TermRun(Term(3), Index(5)), TermRun(Term(2), Index(9)))},
        {"runs": (TermRun(Term(2), Index(4)), TermRun(Term(2), Index(9)))},
        {"runs": ()},
        {"commit": Index(-2)},
    ],
)
def test_an_append_whose_fields_contradict_each_other_is_malformed(change: dict[str, Any]) -> None:
    good = sample(b"abcde")
    bad = AppendEntries(**{**{name: getattr(good, name) for name in good.__slots__}, **change})
    with pytest.raises(MalformedFrame):
        feed(frames.FrameDecoder(), flatten(bad), 1 << 20)


def test_a_head_of_the_wrong_length_or_a_flag_of_two_is_malformed() -> None:
    short = frames.pack_frame(frames.FrameType.TIMEOUT_NOW, b"\0" * 7)
    flag = frames.pack_frame(frames.FrameType.VOTE_REPLY, struct.pack(">qqBB", 1, 1, 2, 0))
    for data in (short, flag):
        with pytest.raises(MalformedFrame):
            feed(frames.FrameDecoder(), data, 1 << 20)


def test_our_own_oversized_frame_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="over the limit"):
        frames.pack_frame(frames.FrameType.APPEND, b"", frames.FRAME_BYTES_MAX)


def test_a_new_frame_raises_the_version() -> None:
    """Add the version that you raise, with the frames that it has; never change an old line.

    But for frames that go only to a peer whose hello or welcome has the flag that asks for them.
    """
    versions, flagged = (
        {2: (*range(1, 5), *range(16, 30))},
        {
            FrameType.GENERATION,
            FrameType.CLOCK,
            FrameType.FORWARD,
            FrameType.FORWARD_REPLY,
            FrameType.CHANNEL,
        },
    )
    assert versions[VERSION] == tuple(int(t) for t in FrameType if t not in flagged)


def test_a_sync_that_ended_before_it_began_is_reported_as_no_time() -> None:
    """Two clocks; a report that cannot be packed would end the node."""
    times = SyncTimes()
    times.begin("log", 7.0)
    times.end(6.75)
    found = DiskWatch(times, (), stall_seconds=1.0, trust_seconds=1.0).look(7.0)
    assert (times.total, times.longest, found.sync_seconds) == (0.0, 0.0, 0.0)
    report = DiskReport(NodeId("n0"), Term(1), found.health, found.sync_seconds)
    assert len(wire.encode(report)) > 0
