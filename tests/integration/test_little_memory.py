"""Nodes that may have 300 MB of memory, under load and beside a client that wants all of it.

    RLIMIT_DATA     what does not fit is refused to the process, which has to live with it
    memory cgroup   what does not fit is taken: the kernel kills the process, and that is a crash

Everything that was acknowledged is there afterwards, also after all nodes were killed and started
again, and no node has ended by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import struct
from collections.abc import Callable, Iterator
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
from .memory_group import MemoryGroup, own_group

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


@pytest.fixture
def memory_groups(new_address: Callable[[], str]) -> Iterator[dict[str, MemoryGroup]]:
    """A group of LIMIT bytes for each node of a cluster of three; removed when it has ended."""
    groups: dict[str, MemoryGroup] = {}
    try:
        parent = own_group()
        for name in ("n0", "n1", "n2"):
            own = f"dledger-{os.getpid()}-{new_address()}-{name}"
            groups[name] = MemoryGroup(parent, own, LIMIT)
    except OSError as error:
        for group in groups.values():
            group.remove()
        pytest.skip(f"not here: a memory cgroup that this process may make ({error})")
    yield groups
    for group in groups.values():
        group.remove()


def _start_in(groups: dict[str, MemoryGroup], cluster: LocalCluster) -> dict[str, int]:
    """Start every node in its group and wait until all are ready; their process ids."""
    for name, group in groups.items():
        with group.entered():
            cluster.start(name)
    cluster.up()
    return {name: process.pid for name, process in _processes(cluster).items()}


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


async def _under_load(cluster: LocalCluster, crowd: ExitStack) -> set[bytes]:
    """The bodies that were acknowledged."""
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
    return acknowledged


async def _all_there(cluster: LocalCluster, acknowledged: set[bytes]) -> None:
    async with connect(cluster.nameserver) as client:
        seen: set[bytes] = set()
        config = ConsumerConfig(start="first")
        async with client.consumer(TOPIC, group="little-again", config=config) as consumer:
            async with asyncio.timeout(limit(120)):
                async for message in consumer:
                    seen.add(message.body)
                    if acknowledged <= seen:
                        return


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


def test_nodes_in_memory_cgroups_serve_and_lose_nothing_in_a_restart(
    memory_groups: dict[str, MemoryGroup], make_cluster: MakeCluster, crowd: ExitStack
) -> None:
    cluster = make_cluster()
    assert sorted(cluster.brokers) == sorted(memory_groups)
    try:
        cluster.kill_all()
        started = _start_in(memory_groups, cluster)
        acknowledged = asyncio.run(_under_load(cluster, crowd))
        print({name: f"{group.peak_bytes >> 20} MiB" for name, group in memory_groups.items()})
        assert [group.kills for group in memory_groups.values()] == [0, 0, 0]
        assert {name: process.pid for name, process in _processes(cluster).items()} == started
        cluster.kill_all()
        _start_in(memory_groups, cluster)
        asyncio.run(_all_there(cluster, acknowledged))
        assert [group.kills for group in memory_groups.values()] == [0, 0, 0]
    finally:
        cluster.down()
