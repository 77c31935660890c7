"""One client that asks all it can, beside 1,000 sends a second of another one; run alone.

    calm      nobody else
    burning   a process beside them that uses as much of a processor, and sends nothing
    hostile   a connection that sends the cheapest request, pipelined, and reads the answers

Of `hostile` the sends' p99 is at most 100 ms and three times that of `burning`, nobody else is
elected, and the leader's memory grows by at most 150 MB. Figures are printed (`pytest -s`).
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from cluster.client import connect
from cluster.local import processes
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, encode_frame

from ..conftest import MakeCluster

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(600)]
SENDS, PER_SECOND = 15_000, 1_000
P99_MS_MAX, TIMES_BURNING_MAX, GROWN_MIB_MAX = 100.0, 3.0, 150


def _ask_all_it_can(host: str, port: int) -> None:
    connection = socket.create_connection((host, port))

    def read() -> None:
        while connection.recv(1 << 20):
            pass

    threading.Thread(target=read, daemon=True).start()
    ask = Frame(RequestCode.GET_MAX_OFFSET, 1, {"topic": "hostile", "queueId": "0"})
    pipelined = encode_frame(ask) * 200
    while True:
        connection.sendall(pipelined)


def _burn() -> None:
    while True:
        pass


@contextlib.contextmanager
def _beside(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


async def _p99_ms(cluster: LocalCluster) -> float:
    """Of sends at a fixed rate, whether or not the ones before are answered."""
    taken: list[float] = []
    async with connect(cluster.nameserver) as client, client.producer() as producer:
        await producer.send("hostile", b"first")

        async def send() -> None:
            began = time.perf_counter()
            await producer.send("hostile", b"x" * 200)
            taken.append(time.perf_counter() - began)

        began = time.perf_counter()
        sends = []
        for number in range(SENDS):
            sends.append(asyncio.ensure_future(send()))
            await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
        await asyncio.gather(*sends)
    return sorted(taken)[len(taken) * 99 // 100] * 1000


def _memory_mib(cluster: LocalCluster, name: str) -> int:
    process: psutil.Process | None = processes.running(cluster.folder(name))
    assert process is not None
    return process.memory_info().rss >> 20


def test_hostile_connection_does_not_hurt_another_client(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    leader = cluster.leader()
    assert leader is not None
    host, port = cluster.profile.member(leader).client.split(":")
    calm = asyncio.run(_p99_ms(cluster))
    with _beside(_burn):
        burning = asyncio.run(_p99_ms(cluster))
    before = _memory_mib(cluster, leader)
    with _beside(_ask_all_it_can, host, int(port)):
        hostile = asyncio.run(_p99_ms(cluster))
    grown = _memory_mib(cluster, leader) - before
    print(
        f"p99 ms: calm {calm:.1f}, burning {burning:.1f}, hostile {hostile:.1f}; {grown} MiB more"
    )
    assert cluster.leader() == leader
    assert hostile <= P99_MS_MAX
    assert hostile <= TIMES_BURNING_MAX * burning
    assert grown <= GROWN_MIB_MAX
