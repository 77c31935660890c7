"""Nodes that may open 256 files, with more clients than that: they serve, elect, and go on."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from cluster.client import connect
from cluster.local import processes
from cluster.local.launcher import LocalCluster

from ..conftest import MakeCluster

LIMIT, CLIENTS = 256, 300


def _node(cluster: LocalCluster, name: str) -> psutil.Process:
    process = processes.running(cluster.folder(name))
    assert process is not None
    return process


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    """Sockets that are closed at the end."""
    with ExitStack() as stack:
        yield stack


def test_cluster_whose_nodes_have_no_descriptor_left_for_clients_elects_and_serves(
    make_cluster: MakeCluster, crowd: ExitStack
) -> None:
    cluster = make_cluster()
    names = cluster.brokers
    for name in names:
        _node(cluster, name).rlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    first = cluster.leader()
    assert first is not None

    async def send(count: int) -> None:
        async with connect(cluster.nameserver) as client, client.producer() as producer:
            for number in range(count):
                await producer.send("few", b"%d" % number)

    asyncio.run(send(3))
    for name in names:
        host, port = cluster.profile.member(name).client.split(":")
        for _ in range(CLIENTS):
            with suppress(ConnectionResetError):  # one that is refused may hear of it so early
                crowd.enter_context(socket.create_connection((host, int(port))))
    for name in names:  # each has refused some and kept its reserve
        assert _node(cluster, name).num_fds() < LIMIT
    cluster.kill(first)
    crowd.close()  # so that a client of ours finds room
    asyncio.run(send(3))
    assert cluster.leader() not in (None, first)
    assert set(cluster.running()) >= set(names) - {first}
