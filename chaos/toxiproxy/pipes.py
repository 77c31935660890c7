"""The effect of each toxic on the chunks of a stage, as in the original; and that of this package's
own toxics.

A pipe is cancelled when its toxic changes or goes. It returns to end its output, and by that the
connection. Times are in milliseconds, of `slicer` in microseconds; a rate is in KB/s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from random import Random

from chaos.live.shape import Repeater, Shape
from chaos.toxiproxy.stages import Chunk, Pipe, Stage, pass_on
from chaos.toxiproxy.toxics import Toxic

#: Chunks that may wait in front of a toxic, others than one.
BUFFERS = {"latency": 1024}
BURST_MS = 100  # a slow stream goes on ten times a second


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def latency(stage: Stage) -> None:
    """Delays each chunk, counted from its arrival, so that chunks do not add up their delays."""
    values = stage.toxic.attributes
    while chunk := await stage.take():
        late = values["latency"]
        if values["jitter"] > 0:
            late += stage.random.randrange(-int(values["jitter"]), int(values["jitter"]))
        wait = late / 1e3 - (time.monotonic() - chunk.at)
        await asyncio.sleep(max(0.0, wait))
        chunk.at += wait
        await stage.give()


async def bandwidth(stage: Stage) -> None:
    """So many bytes in a millisecond; a large chunk goes on in bursts. Without a rate all waits."""
    rate = int(stage.toxic.attributes["rate"])
    debt = 0.0
    while chunk := await stage.take():
        if rate <= 0:
            await _for_ever()
        debt += len(chunk.data) / rate / 1e3
        while stage.held is not None and len(stage.held.data) > rate * BURST_MS:
            await asyncio.sleep(BURST_MS / 1e3)
            await stage.give(rate * BURST_MS)
            debt -= BURST_MS / 1e3
        began = time.monotonic()
        await asyncio.sleep(max(0.0, debt))
        debt -= time.monotonic() - began  # what a timer overslept is made up for
        await stage.give()


async def slow_close(stage: Stage) -> None:
    """The end is late; bytes are not."""
    await pass_on(stage)
    await asyncio.sleep(max(0.0, stage.toxic.attributes["delay"] / 1e3))


async def timeout(stage: Stage) -> None:
    """Bytes vanish; the connection ends when none came for so long, if ever."""
    milliseconds = stage.toxic.attributes["timeout"]
    try:
        while True:  # until none comes in time, or the end
            async with asyncio.timeout(milliseconds / 1e3 if milliseconds > 0 else None):
                if not await stage.take():
                    return
            stage.drop()
    except TimeoutError:
        stage.drop()


async def reset_peer(stage: Stage) -> None:
    """The first byte, or the end, is the end some time later; with RST, see links.py."""
    await stage.take()
    stage.drop()
    stage.doomed = True
    await asyncio.sleep(max(0.0, stage.toxic.attributes["timeout"] / 1e3))


async def slicer(stage: Stage) -> None:
    """Pieces, and a pause after each."""
    values = stage.toxic.attributes
    average, variation = int(values["average_size"]), int(values["size_variation"])
    while chunk := await stage.take():
        for size in list(pieces(len(chunk.data), average, variation, stage.random)):
            await stage.give(size)
            await asyncio.sleep(max(0.0, values["delay"] / 1e6))


def pieces(size: int, average: int, variation: int, random: Random) -> Iterator[int]:
    """Halves, and halves of those, until they are small enough."""
    if size <= max(1, average + variation):
        yield size
        return
    middle = size // 2
    if variation > 0:
        middle += random.randrange(-variation, variation)
    middle = min(max(1, middle), size - 1)  # the original ends of sizes that make no sense
    yield from pieces(middle, average, variation, random)
    yield from pieces(size - middle, average, variation, random)


async def limit_data(stage: Stage) -> None:
    """The end comes with the last byte that passes; each connection has its own count."""
    limit = int(stage.toxic.attributes["bytes"])
    while chunk := await stage.take():
        chunk.data = chunk.data[: max(0, limit - stage.passed)]
        stage.passed += len(chunk.data)
        await stage.give()
        if stage.passed >= limit:
            return


async def freeze(stage: Stage) -> None:
    """Passes neither bytes nor the end."""
    await _for_ever()


async def damage(stage: Stage) -> None:
    """Loss, repeats and the like: toxics of ours, see chaos/live/shape.py."""
    shape, repeater = shape_of(stage.toxic, stage.random.getrandbits(32)), Repeater()
    try:
        while chunk := await stage.take():
            for wait, data in shape.steps(chunk.data, repeater):
                stage.held = Chunk(data, chunk.at)
                await asyncio.sleep(wait)
                await stage.give()
    finally:  # part of a frame may wait for its rest
        if rest := repeater.rest():
            held = stage.held.data if stage.held else b""
            stage.held = Chunk(held + rest, time.monotonic())


def shape_of(toxic: Toxic, seed: int) -> Shape:
    """The shape of a toxic of this project that damages bytes."""
    values = toxic.attributes
    match toxic.type:
        case "drop_after":
            return Shape(drop_after=int(values["bytes"]), seed=seed)
        case "replay":
            return Shape(replay=int(values["every"]), seed=seed)
        case kind:
            shape = Shape(seed=seed)
            setattr(shape, kind, values["chance"])
            return shape


PIPES: dict[str, Pipe] = {
    "latency": latency,
    "bandwidth": bandwidth,
    "slow_close": slow_close,
    "timeout": timeout,
    "reset_peer": reset_peer,
    "slicer": slicer,
    "limit_data": limit_data,
    "freeze": freeze,
    **dict.fromkeys(("loss", "corrupt", "duplicate", "reorder", "replay", "drop_after"), damage),
}
