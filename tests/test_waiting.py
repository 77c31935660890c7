"""The waits and the event loops that other tests stand on."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests import waiting
from tests.virtual_loop import SteadyLoop, virtual_loop
from tests.waiting import eventually, limit, wait_until, within


async def test_a_condition_that_comes_true_ends_the_wait_with_its_value() -> None:
    seen = iter([0, 0, 7])
    assert await eventually(lambda: next(seen), "seven") == 7

    async def later() -> str:
        return "now"

    assert await eventually(later, "now") == "now"
    seen = iter([0, 0, 7])
    assert wait_until(lambda: next(seen), "seven") == 7


@pytest.mark.virtual_time
async def test_a_condition_that_stays_false_fails_with_its_name_and_the_last_value() -> None:
    with pytest.raises(AssertionError, match=r"a leader: not so within .*; seen last: \[\]"):
        await eventually(list, "a leader")
    with pytest.raises(AssertionError, match="an answer: no result within"):
        await within(asyncio.Event().wait(), "an answer")
    with pytest.raises(AssertionError, match="it: not so within 0 s; seen last: None"):
        wait_until(lambda: None, "it", 0)


@pytest.mark.virtual_time
async def test_a_time_limit_of_the_awaited_itself_is_its_own() -> None:
    async def late() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await within(late(), "an answer")


def test_limits_are_scaled_by_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FACTOR", 3.0)
    assert limit(2) == 6


async def test_a_stall_of_the_machine_is_no_time_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteadyLoop)
    begun, real = loop.time(), time.monotonic
    await asyncio.sleep(0)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: real() + 5)  # nobody ran this process for 5 s
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert loop.time() - begun < 1


@pytest.mark.virtual_time
async def test_virtual_time_jumps_to_the_next_timer() -> None:
    loop = virtual_loop()
    begun = loop.time()
    await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(60))
    assert loop.time() - begun == 3600


@pytest.mark.virtual_time
async def test_virtual_time_waits_for_threads() -> None:
    released = asyncio.get_running_loop().run_in_executor(None, sum, [1, 2])
    assert await within(released, "the thread's sum") == 3


@pytest.mark.virtual_time
async def test_connections_in_memory_are_as_those_of_sockets() -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b"welcome\n")
        writer.close()

    virtual_loop().net.latency = 0.25
    begun = virtual_loop().time()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"hello\n")
    assert await reader.read() == b"welcome\n"
    assert heard == [b"hello\n"]
    assert virtual_loop().time() - begun == pytest.approx(0.75)
    writer.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
