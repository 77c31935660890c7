"""Stages and channels: nothing is lost or changes its order while toxics come and go."""

from __future__ import annotations

import asyncio
import socket
from random import Random

import pytest

from chaos.toxiproxy.pipes import PIPES, pieces
from chaos.toxiproxy.proxies import Proxy
from chaos.toxiproxy.stages import Channel, Chunk, Stage
from chaos.toxiproxy.toxics import TYPES, Toxic
from tests.waiting import limit


def chunk(data: bytes) -> Chunk:
    return Chunk(data, 0.0)


async def everything(channel: Channel) -> bytes:
    found = b""
    while one := await channel.get():
        found += one.data
    return found


def stage(kind: str, source: Channel, output: Channel, **values: float) -> Stage:
    toxic = Toxic(kind, kind, "upstream", 1.0, {**TYPES[kind], **values})
    return Stage(toxic, PIPES[kind], source, output, Random(1))


async def test_a_channel_holds_few_and_gives_all_before_its_end() -> None:
    channel = Channel()
    await channel.put(chunk(b"1"))
    waiting = asyncio.ensure_future(channel.put(chunk(b"2")))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await channel.get() == chunk(b"1")
    await waiting
    channel.close()
    await channel.put(chunk(b"too late"))
    assert await everything(channel) == b"2"


async def test_what_waits_for_room_follows_the_channel() -> None:
    old, new = Channel(), Channel(4)
    await new.put(chunk(b"1"))
    await old.put(chunk(b"2"))
    waiting = asyncio.ensure_future(old.put(chunk(b"3")))
    await asyncio.sleep(0)
    old.flow_into(new)
    await waiting
    await old.put(chunk(b"4"))
    old.close()
    assert await everything(new) == b"1234"


async def test_the_end_follows_the_channel() -> None:
    old, new = Channel(), Channel()
    old.push(chunk(b"1"))
    old.close()
    old.flow_into(new)
    assert await everything(new) == b"1"


@pytest.mark.virtual_time
@pytest.mark.usefixtures("loop_clock")
async def test_a_stage_that_leaves_loses_nothing() -> None:
    source, output = Channel(8), Channel()
    one = stage("latency", source, output, latency=60_000)
    for data in (b"1", b"2", b"3"):
        await source.put(Chunk(data, asyncio.get_running_loop().time()))
    await asyncio.sleep(0.01)
    assert one.held is not None
    assert await one.stop()
    one.leave()
    source.close()
    assert await everything(output) == b"123"


@pytest.mark.virtual_time
@pytest.mark.usefixtures("loop_clock")
async def test_a_stage_that_changes_again_and_again_loses_nothing() -> None:
    source, output = Channel(), Channel()
    one = stage("slicer", source, output, average_size=3, delay=100)
    data = bytes(range(256))
    random = Random(2)

    async def fill() -> None:
        for at in range(0, 256, 16):
            await source.put(chunk(data[at : at + 16]))
        source.close()

    async def change() -> None:
        while await one.stop():
            one.start(one.toxic)
            await asyncio.sleep(random.random() / 1e3)

    changing = asyncio.ensure_future(change())
    _, found = await asyncio.gather(fill(), everything(output))
    await changing
    assert found == data


@pytest.mark.parametrize("kind", ["limit_data", "reset_peer", "timeout"])
async def test_a_stage_that_has_ended_changes_no_more(kind: str) -> None:
    source, output = Channel(), Channel()
    one = stage(kind, source, output, **({"timeout": 1} if kind == "timeout" else {}))
    await source.put(chunk(b"1"))
    assert await everything(output) == b""
    assert not await one.stop()


async def test_frames_that_wait_for_their_rest_pass_when_repeating_ends() -> None:
    source, output = Channel(), Channel(4)
    one = stage("replay", source, output, every=1)
    await source.put(chunk(b"\0\0\0\1a" + b"\0\0"))
    assert await output.get() == chunk(b"\0\0\0\1a" * 2)
    assert await one.stop()
    one.leave()
    source.close()
    assert await everything(output) == b"\0\0"


@pytest.mark.parametrize(
    ("size", "average", "variation"),
    [(1, 1, 0), (1000, 10, 3), (1000, 3, 100), (50, 0, 0), (50, -1, 0), (50, 1, -7), (0, 5, 1)],
)
def test_pieces_are_all_of_it(size: int, average: int, variation: int) -> None:
    found = list(pieces(size, average, variation, Random(3)))
    assert sum(found) == size
    assert max(found) <= max(1, average + variation)


def test_pieces_vary_and_repeat_with_their_seed() -> None:
    def sizes(seed: int) -> list[int]:
        return list(pieces(1000, 10, 5, Random(seed)))

    assert len(set(sizes(1))) > 3
    assert sizes(1) == sizes(1) != sizes(2)


async def test_who_is_taken_as_the_proxy_goes_down_is_told() -> None:
    """Cancelled before its task has begun, a connection was nobody's to close."""
    proxy = Proxy("p", "127.0.0.1:0", "127.0.0.1:1")
    await proxy.enable()
    host, _, port = proxy.listen.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        assert proxy._listener is not None
        proxy._accept(proxy._listener)
        await proxy.disable()
        client.settimeout(limit(10))
        assert client.recv(1) == b""
