"""Memory and descriptors of a real process are squeezed, and it has both again afterwards."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from chaos.drivers import squeeze
from chaos.drivers.stage import Stage
from tests.waiting import limit

#: Takes so many MiB of memory, a page after the other, when asked to.
GROWS = """
import sys
for line in sys.stdin:
    taken = bytearray(int(line) << 20)
    for at in range(0, len(taken), 4096):
        taken[at] = 1
    print("took it", flush=True)
"""
needs_memory = pytest.mark.skipif(
    squeeze.memory_cgroup() is None, reason="not here: needs a cgroup v1 for memory"
)


@pytest.fixture
def node() -> Iterator[subprocess.Popen[str]]:
    """It has begun, been asked once, and waits: what a process takes to start is no need of it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen((sys.executable, "-c", GROWS), text=True, **pipes) as process:  # type: ignore[call-overload]
        ask(process, 0)
        assert process.stdout is not None
        assert process.stdout.readline() == "took it\n"
        yield process
        process.kill()


def ask(node: subprocess.Popen[str], megabytes: int) -> None:
    assert node.stdin is not None
    node.stdin.write(f"{megabytes}\n")
    node.stdin.flush()


def stage(node: subprocess.Popen[str], hold: Callable[[], None]) -> Stage:
    async def held() -> None:
        await asyncio.to_thread(hold)

    async def until(seen: Callable[[], bool], _: float) -> bool:
        return seen()

    return cast(Stage, SimpleNamespace(hold=held, until=until))


async def squeezed(node: subprocess.Popen[str], hold: Callable[[], None]) -> str:
    root = squeeze.memory_cgroup()
    assert root is not None
    return await squeeze._of_memory(stage(node, hold), psutil.Process(node.pid), root)


def groups() -> list[Path]:
    return list(squeeze.MEMORY.glob("dledger-chaos-*"))


@needs_memory
async def test_a_node_that_takes_more_meets_the_limit(node: subprocess.Popen[str]) -> None:
    def grows() -> None:
        ask(node, 8)
        node.wait(limit(30))  # it has no files that the kernel could take away instead

    told = await squeezed(node, grows)
    assert "of new memory were not enough; the kernel killed it" in told
    assert groups() == []


@needs_memory
async def test_one_that_needs_nothing_was_not_squeezed_and_is_free_again(
    node: subprocess.Popen[str],
) -> None:
    assert await squeezed(node, lambda: None) == ""
    assert groups() == []
    ask(node, 8)
    assert node.stdout is not None
    assert node.stdout.readline() == "took it\n"
