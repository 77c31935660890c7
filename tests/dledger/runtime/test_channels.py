"""Channels of many groups over one connection: each whole, in turns, and ended alone."""

from __future__ import annotations

import asyncio

import pytest

from commitlog.files.system import Buffer
from dledger.errors import MalformedFrame
from dledger.runtime.channels import (
    CHANNEL_FRAME_BYTES_MAX,
    CHUNK_BYTES_MAX,
    NUMBER_MAX,
    Channels,
    Fed,
)
from dledger.runtime.owned import Owned
from dledger.wire.frames import Frame, FrameDecoder, FrameType, pack_frame

BIG = bytes(range(256)) * (8 * CHUNK_BYTES_MAX // 256)


class Taker(Fed):
    """Keeps what comes; `fails` at it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.got, self.fails = bytearray(), fails
        self.transport: asyncio.Transport | None = None
        self.paused = self.lost = False
        self._buffer = bytearray(1000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        if self.fails:
            raise ZeroDivisionError("while it read")
        self.got += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


class Pair:
    """Both ends of a carrier; what the dialler writes is kept in `frames` until `deliver`."""

    def __init__(self) -> None:
        self.died: list[BaseException] = []
        self.owned = Owned(self.died.append)
        self.takers: list[Taker] = []
        self.fails = False
        self.frames = bytearray()
        self._back = FrameDecoder(CHANNEL_FRAME_BYTES_MAX)
        self._there = FrameDecoder(CHANNEL_FRAME_BYTES_MAX)
        self.dialler = Channels(self._write, self.owned)
        self.acceptor = Channels(self._answer, self.owned, self._accept)

    def _accept(self) -> Taker:
        self.takers.append(Taker(fails=self.fails))
        return self.takers[-1]

    def _write(self, parts: list[Buffer]) -> None:
        self.frames += b"".join(parts)

    def _answer(self, parts: list[Buffer]) -> None:
        for frame in decoded(self._back, b"".join(parts)):
            self.dialler.heard(frame)

    async def deliver(self) -> list[int]:
        """Let a turn pass and take what was written; the channels in the order of their bytes."""
        await asyncio.sleep(0)
        data, self.frames = bytes(self.frames), bytearray()
        order = []
        for frame in decoded(self._there, data):
            order.append(int.from_bytes(frame.head[:4], "big"))
            self.acceptor.heard(frame)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return order


def decoded(decoder: FrameDecoder, data: bytes) -> list[Frame]:
    """The frames, as values."""
    found = []
    while data:
        view = decoder.get_buffer()
        size = min(len(view), len(data))
        view[:size] = data[:size]
        found += [
            Frame(f.type, memoryview(bytes(f.head)), memoryview(bytes(f.raw)))
            for f in decoder.frames(size)
        ]
        data = data[size:]
    return found


async def test_bytes_of_channels_arrive_whole_and_apart() -> None:
    pair = Pair()
    channels = [pair.dialler.open(Taker()) for _ in range(2)]
    channels[0].writelines([b"one", BIG])
    channels[1].write(b"two")
    await pair.deliver()
    assert [bytes(taker.got) for taker in pair.takers] == [b"one" + BIG, b"two"]


async def test_one_turn_is_one_write() -> None:
    pair, writes = Pair(), list[int]()
    pair.dialler._write = lambda parts: writes.append(len(parts))
    for channel in [pair.dialler.open(Taker()) for _ in range(100)]:
        channel.write(b"beat")
    await asyncio.sleep(0)
    assert writes == [300]  # 100 that open, and 100 headers with their bytes


async def test_a_backlog_of_one_makes_another_wait_for_one_chunk() -> None:
    pair = Pair()
    bulk, small = [pair.dialler.open(Taker()) for _ in range(2)]
    await pair.deliver()
    pair.dialler.pause()
    bulk.write(BIG)
    small.write(b"beat")
    pair.dialler.resume()
    assert (await pair.deliver())[:3] == [1, 2, 1]
    assert [len(taker.got) for taker in pair.takers] == [len(BIG), 4]


async def test_a_channel_that_queues_too_much_is_paused_and_no_other() -> None:
    pair, protocols = Pair(), [Taker(), Taker()]
    bulk, small = [pair.dialler.open(taker) for taker in protocols]
    pair.dialler.pause()
    bulk.set_write_buffer_limits(high=1000)
    bulk.write(BIG)
    small.write(b"beat")
    assert bulk.get_write_buffer_size() == len(BIG)
    assert [taker.paused for taker in protocols] == [True, False]
    pair.dialler.resume()
    assert [taker.paused for taker in protocols] == [False, False]


async def test_a_mistake_at_one_channel_ends_it_at_both_ends_and_no_other() -> None:
    pair, protocols = Pair(), [Taker(), Taker()]
    pair.fails = True
    sick = pair.dialler.open(protocols[0])
    await pair.deliver()
    pair.fails = False
    well = pair.dialler.open(protocols[1])
    sick.write(b"x")
    well.write(b"y")
    await pair.deliver()
    assert pair.takers[0].lost
    assert [taker.lost for taker in protocols] == [True, False]
    assert bytes(pair.takers[1].got) == b"y"
    assert not pair.died
    sick.write(b"it is over")
    well.write(b"z")
    await pair.deliver()
    assert bytes(pair.takers[1].got) == b"yz"


async def test_close_sends_what_is_queued_and_abort_does_not() -> None:
    pair = Pair()
    closed, aborted = [pair.dialler.open(Taker()) for _ in range(2)]
    pair.dialler.pause()
    for channel in (closed, aborted):
        channel.write(b"last")
    closed.close()
    aborted.abort()
    assert closed.is_closing()
    pair.dialler.resume()
    await pair.deliver()
    assert [(bytes(taker.got), taker.lost) for taker in pair.takers] == [
        (b"last", True),
        (b"", True),
    ]


async def test_channels_end_with_their_carrier() -> None:
    pair, protocols = Pair(), [Taker(), Taker()]
    for taker in protocols:
        pair.dialler.open(taker)
    pair.dialler.lost(ConnectionResetError("gone"))
    await asyncio.sleep(0)
    assert all(taker.lost for taker in protocols)
    with pytest.raises(ConnectionResetError):
        pair.dialler.open(Taker())


async def test_a_mistake_at_the_end_of_a_channel_is_not_the_host_s() -> None:
    pair, well = Pair(), Taker()

    class Sick(Taker):
        def connection_lost(self, exc: Exception | None) -> None:
            raise ZeroDivisionError("while it ended")

    pair.dialler.open(Sick())
    pair.dialler.open(well)
    pair.dialler.lost(None)
    await asyncio.sleep(0)
    assert well.lost
    assert not pair.died
    assert pair.owned.mistakes == 1


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\0\0\0\2\1", "cannot be opened"),
        (b"\0\0\0\1\0", "is not open"),
        (b"\0\0\0\0\7", "is not open"),
        (b"\0\0\0\1", "connection of channels"),
    ],
)
async def test_frames_that_no_honest_host_sends(head: bytes, said: str) -> None:
    pair = Pair()
    frame = decoded(FrameDecoder(), pack_frame(FrameType.CHANNEL, head))[0]
    with pytest.raises(MalformedFrame, match=said):
        pair.acceptor.heard(frame)


async def test_the_side_that_accepts_opens_none() -> None:
    pair = Pair()
    frame = decoded(FrameDecoder(), pack_frame(FrameType.CHANNEL, b"\0\0\0\1\1"))[0]
    with pytest.raises(MalformedFrame, match="cannot be opened"):
        pair.dialler.heard(frame)


async def test_a_carrier_whose_numbers_are_used_up_opens_no_channel() -> None:
    pair = Pair()
    pair.dialler.open(Taker())
    assert not pair.dialler.is_used_up
    pair.dialler._last = NUMBER_MAX
    assert pair.dialler.is_used_up
    with pytest.raises(ConnectionResetError):
        pair.dialler.open(Taker())
