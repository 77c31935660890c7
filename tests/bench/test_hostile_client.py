"""One client that takes all it can, beside 1,000 sends a second of another one; run alone.

    calm      nobody else
    burning   a process beside them that uses as much of a processor, and sends nothing
    hostile   one kind of hostile client (hostile.py), for 60 s or $DLEDGER_HOSTILE_SECONDS

Of `hostile` the sends' p99 is at most 100 ms and three times that of `burning`, nobody else is
elected, and the leader's memory grows by at most 150 MB. Figures are printed (`pytest -s`).
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from cluster.client import connect
from cluster.local import processes
from cluster.local.launcher import LocalCluster

from ..conftest import MakeCluster
from . import hostile

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(600)]
PER_SECOND = 1_000
HOSTILE_SECONDS = int(os.environ.get("DLEDGER_HOSTILE_SECONDS") or 60)
#: Of the two others; a p99 of 15,000 sends.
SECONDS = min(15, HOSTILE_SECONDS)
P99_MS_MAX, TIMES_BURNING_MAX, GROWN_MIB_MAX = 100.0, 3.0, 150


@contextlib.contextmanager
def _beside(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    try:
        yield
        assert process.is_alive(), "it was there all the time"
    finally:
        process.kill()
        process.join()


async def _p99_ms(cluster: LocalCluster, seconds: int) -> float:
    """Of sends at a fixed rate, whether or not the ones before are answered."""
    taken: list[float] = []
    async with connect(cluster.nameserver) as client, client.producer() as producer:
        await producer.send(hostile.TOPIC, b"first")

        async def send() -> None:
            began = time.perf_counter()
            await producer.send(hostile.TOPIC, b"x" * 200)
            taken.append(time.perf_counter() - began)

        began = time.perf_counter()
        sends = []
        for number in range(seconds * PER_SECOND):
            sends.append(asyncio.ensure_future(send()))
            await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
        await asyncio.gather(*sends)
    return sorted(taken)[len(taken) * 99 // 100] * 1000


def _memory_mib(cluster: LocalCluster, name: str) -> int:
    process: psutil.Process | None = processes.running(cluster.folder(name))
    assert process is not None
    return process.memory_info().rss >> 20


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_hostile_client_does_not_hurt_another_one(make_cluster: MakeCluster, kind: str) -> None:
    cluster = make_cluster()
    leader = cluster.leader()
    assert leader is not None
    host, port = cluster.profile.member(leader).client.split(":")
    calm = asyncio.run(_p99_ms(cluster, SECONDS))
    with _beside(hostile.burn):
        burning = asyncio.run(_p99_ms(cluster, SECONDS))
    before = _memory_mib(cluster, leader)
    with _beside(hostile.KINDS[kind], host, int(port)):
        beside = asyncio.run(_p99_ms(cluster, HOSTILE_SECONDS))
    grown = _memory_mib(cluster, leader) - before
    print(
        f"{kind}: p99 ms: calm {calm:.1f}, burning {burning:.1f}, hostile {beside:.1f}; "
        f"{grown} MiB more"
    )
    assert cluster.leader() == leader
    assert beside <= P99_MS_MAX
    assert beside <= TIMES_BURNING_MAX * burning
    assert grown <= GROWN_MIB_MAX
