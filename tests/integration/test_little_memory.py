"""Nodes that may have 300 MB of memory, under load and beside a client that wants all of it.

The limit is RLIMIT_DATA: what does not fit is refused to the process, which has to live with it.
Everything that was acknowledged is there afterwards, and no node has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from cluster.client import Client, ConsumerConfig, connect
from cluster.errors import ClusterError
from cluster.local import processes
from cluster.local.launcher import LocalCluster
from cluster.protocol.frames import FRAME_SIZE_MAX
from tests.waiting import eventually, limit

from ..conftest import MakeCluster

pytestmark = [pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(300)]
LIMIT = 300_000_000
MESSAGES, AT_ONCE, BODY_SIZE = 30_000, 500, 1024
HOSTILE = 30
TOPIC = "little"


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    """Sockets that are closed at the end."""
    with ExitStack() as stack:
        yield stack


def _processes(cluster: LocalCluster) -> dict[str, psutil.Process]:
    found = {name: processes.running(cluster.folder(name)) for name in cluster.brokers}
    return {name: process for name, process in found.items() if process is not None}


def _data_mib(process: psutil.Process) -> int:
    """What the limit counts, in MiB."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) >> 10


def _send_partial_frames(address: str, crowd: ExitStack) -> None:
    """Each a frame of the largest size, but for its last byte; who is cut off is cut off."""
    host, port = address.split(":")
    for _ in range(HOSTILE):
        connection = crowd.enter_context(socket.create_connection((host, int(port))))
        connection.settimeout(limit(5))
        with contextlib.suppress(OSError):
            header = (
                b'{"code":310,"language":"JAVA","version":0,"opaque":1,"flag":0,"extFields":{}}'
            )
            size = FRAME_SIZE_MAX - 4
            connection.sendall(struct.pack(">ii", size, len(header)) + header)
            rest = size - 4 - len(header) - 1
            while rest:
                rest -= connection.send(bytes(min(rest, 1 << 20)))


async def _send(client: Client, count: int) -> set[bytes]:
    """The bodies that were acknowledged."""
    acknowledged: set[bytes] = set()
    async with client.producer() as producer:

        async def send(body: bytes) -> None:
            try:
                await producer.send(TOPIC, body)
            except ClusterError:
                return  # it says so; whether it is stored is not known
            acknowledged.add(body)

        for first in range(0, count, AT_ONCE):
            bodies = [b"%d-" % n + b"x" * BODY_SIZE for n in range(first, first + AT_ONCE)]
            await asyncio.gather(*map(send, bodies))
    return acknowledged


async def _consume(client: Client, seen: set[bytes]) -> None:
    config = ConsumerConfig(start="first")
    async with client.consumer(TOPIC, group="little-group", config=config) as consumer:
        async for message in consumer:
            seen.add(message.body)


async def _under_load(cluster: LocalCluster, crowd: ExitStack) -> None:
    leader = cluster.leader()
    assert leader is not None
    address = cluster.profile.member(leader).client
    async with connect(cluster.nameserver) as client:
        async with client.producer() as producer:
            await producer.send(TOPIC, b"first")
        seen: set[bytes] = set()
        reading = asyncio.create_task(_consume(client, seen))
        hostile = asyncio.to_thread(_send_partial_frames, address, crowd)
        acknowledged, _ = await asyncio.gather(_send(client, MESSAGES), hostile)
        assert len(acknowledged) > MESSAGES // 2
        await eventually(lambda: acknowledged <= seen, "all that was acknowledged", 120)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def test_nodes_with_300_mb_serve_and_lose_nothing(
    make_cluster: MakeCluster, crowd: ExitStack
) -> None:
    cluster = make_cluster()
    nodes = _processes(cluster)
    for process in nodes.values():
        process.rlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    asyncio.run(_under_load(cluster, crowd))
    print({name: f"{_data_mib(process)} MiB" for name, process in nodes.items()})
    assert all(process.is_running() for process in nodes.values())
    assert {name: p.pid for name, p in _processes(cluster).items()} == {
        name: p.pid for name, p in nodes.items()
    }
