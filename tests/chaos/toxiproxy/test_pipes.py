"""What time our toxics take, on a clock that only they move."""

from __future__ import annotations

import asyncio
import time

import pytest

from chaos.toxiproxy.stages import Channel, Chunk

from .test_stages import stage

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("loop_clock")]

Arrivals = list[tuple[float, bytes]]


async def put(source: Channel, *chunks: tuple[float, bytes], end: float | None = None) -> None:
    """Chunks that come at these seconds, and the end."""
    began = time.monotonic()
    for at, data in chunks:
        await asyncio.sleep(began + at - time.monotonic())
        await source.put(Chunk(data, time.monotonic()))
    if end is not None:
        await asyncio.sleep(began + end - time.monotonic())
        source.close()


async def arrivals(output: Channel) -> tuple[Arrivals, float]:
    """When each chunk came, and when the end."""
    began, found = time.monotonic(), []
    while chunk := await output.get():
        found.append((round(time.monotonic() - began, 6), chunk.data))
    return found, round(time.monotonic() - began, 6)


async def through(
    kind: str, *chunks: tuple[float, bytes], end: float | None = None, **values: float
) -> tuple[Arrivals, float]:
    """What comes of chunks behind one toxic."""
    source, output = Channel(8), Channel()
    passing = stage(kind, source, output, **values)
    _, found = await asyncio.gather(put(source, *chunks, end=end), arrivals(output))
    passing.abandon()
    return found


async def test_latency_is_of_each_chunk_and_not_of_a_queue() -> None:
    found, ended = await through("latency", (0.0, b"1"), (0.1, b"2"), end=0.1, latency=600)
    assert found == [(0.6, b"1"), (0.7, b"2")]
    assert ended == 0.7


async def test_jitter_goes_both_ways() -> None:
    chunks = [(float(number), b"x") for number in range(40)]
    found, _ = await through("latency", *chunks, end=40.0, latency=80, jitter=80)
    late = [at - number for number, (at, _) in enumerate(found)]
    assert all(0.0 <= one <= 0.16 for one in late)
    assert min(late) < 0.03
    assert max(late) > 0.13


async def test_latencies_of_two_toxics_add_up() -> None:
    source, between, output = Channel(), Channel(), Channel()
    stage("latency", source, between, latency=200)
    stage("latency", between, output, latency=300)
    _, (found, _) = await asyncio.gather(put(source, (0.0, b"x"), end=0.0), arrivals(output))
    assert found == [(0.5, b"x")]


async def test_bandwidth_caps_and_passes_a_little_at_a_time() -> None:
    found, ended = await through("bandwidth", (0.0, bytes(32_000)), end=0.0, rate=20)
    assert [at for at, _ in found[:3]] == [0.1, 0.2, 0.3]
    assert {len(data) for _, data in found} == {2000}
    assert sum(len(data) for _, data in found) == 32_000
    assert ended == 1.6


async def test_slow_close_delays_the_end_and_no_byte() -> None:
    found, ended = await through("slow_close", (0.0, b"x"), end=0.0, delay=300)
    assert (found, ended) == ([(0.0, b"x")], 0.3)


async def test_timeout_ends_a_stream_that_is_silent_for_so_long() -> None:
    chunks = [(0.3 * number, b"x") for number in range(5)]
    assert await through("timeout", *chunks, timeout=400) == ([], 1.2 + 0.4)


async def test_a_timeout_of_nothing_never_ends_a_stream() -> None:
    assert await through("timeout", (0.0, b"x"), end=3600.0, timeout=0) == ([], 3600.0)


async def test_reset_peer_ends_a_stream_some_time_behind_its_first_byte() -> None:
    assert await through("reset_peer", (5.0, b"x"), timeout=400) == ([], 5.4)


async def test_slicer_pauses_behind_each_piece() -> None:
    values = {"average_size": 4, "size_variation": 0, "delay": 1000}
    found, _ = await through("slicer", (0.0, bytes(2000)), end=0.0, **values)
    assert b"".join(data for _, data in found) == bytes(2000)
    assert len(found) >= 500
    assert [at for at, _ in found] == [pytest.approx(number / 1e3) for number in range(len(found))]
