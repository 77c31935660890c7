"""A group that is closed and opened again: nothing of its first run touches its files then."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from commitlog.files.system import OS_FILES
from dledger import Host, ReplicatedLog
from dledger.core.types import NodeId
from dledger.membership.generation import NO_GENERATION, Generation
from dledger.membership.generations import Generations
from dledger.membership.handshake import Dialler, LinkKind, Member
from dledger.runtime.peer_port import PeerPort
from dledger.wire.frames import FrameDecoder
from tests.waiting import eventually, limit

from .hosts import Hosts


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path, new_address)
    await made.start("n0")
    yield made
    await made.close()


async def start(host: Host) -> ReplicatedLog:
    return await host.open_log("a", create=not host.config_of("a").data_dir.exists())


def is_older(host: Host, shown: Generation) -> str | None:
    """What a peer that was shown `shown` is told by the next start of this folder."""
    return Generations(OS_FILES, Path(host.config.data_dir, "a"), NodeId("n0")).judge(
        NodeId("n1"), shown
    )


class Met:
    """A peer's generations: it has one, and judges nobody."""

    current = Generation(7, 77)

    def met(self, peer: NodeId, incarnation: int) -> Generation:
        return NO_GENERATION

    def judge(self, peer: NodeId, met: Generation) -> str | None:
        return None

    def remember(self, peer: NodeId, incarnation: int, generation: Generation) -> None:
        """It forgets."""


async def half_greet(host: Host) -> tuple[asyncio.StreamWriter, bytes]:
    """Call as n1, up to our last frame, which is given back: it tells our generation."""
    me = Member(str(host.config.cluster_id), "a", NodeId("n1"), 5)
    nonce = os.urandom(16)
    dialler = Dialler(
        me, NodeId("n0"), LinkKind.BULK, None, nonce, lambda peer, incarnation: None, witness=Met()
    )
    reader, writer = await asyncio.open_connection(*host.config.peers["n0"])
    writer.write(dialler.start())
    decoder, rest = FrameDecoder(), b""
    while dialler.peer is None:
        data = await reader.read(4096)
        assert data, "it is let in"
        decoder.get_buffer()[: len(data)] = data
        for frame in decoder.frames(len(data)):
            rest += dialler.receive(frame)
    return writer, rest


def assert_set(event: threading.Event) -> None:
    assert event.wait(limit(30))


def port_of(log: ReplicatedLog) -> PeerPort:
    shared = log.driver.parts.host
    assert shared is not None
    return shared.port


async def test_a_handshake_with_its_first_run_is_over(hosts: Hosts) -> None:
    """A frame that came later would write what that run has met over the next one's files."""
    host = hosts.hosts["n0"]
    log = await start(host)
    writer, rest = await half_greet(host)
    port = port_of(log)
    greeting = list(port.greeting)
    await log.close()
    assert [one._closed for one in greeting] == [True]
    log = await start(host)
    shown = log.driver.generation
    writer.write(rest)
    await eventually(lambda: not port.greeting, "that the caller is rid of", 30)
    writer.close()
    await log.close()
    assert is_older(host, shown) is None


async def test_a_write_that_waits_for_a_thread_is_withdrawn(hosts: Hosts) -> None:
    host, goes_on = hosts.hosts["n0"], threading.Event()
    log = await start(host)
    shared = log.driver.parts.host
    assert shared is not None
    for _ in range(2):  # two other groups make files
        shared._threads["files"].run(lambda: assert_set(goes_on))
    log.driver._renewal._write(1)
    await log.close()
    log = await start(host)
    shown = log.driver.generation
    goes_on.set()
    await log.close()
    assert is_older(host, shown) is None


async def test_a_write_under_way_is_waited_for(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, writes, written = threading.Event(), threading.Event(), list[bytes]()
    log = await start(hosts.hosts["n0"])
    generations = log.driver.parts.generations

    def write(data: bytes) -> None:
        writes.set()
        assert goes_on.wait(limit(30))
        written.append(data)

    monkeypatch.setattr(generations, "write", write)
    log.driver._renewal._write(1)
    assert await asyncio.to_thread(writes.wait, limit(30))
    threading.Timer(0.05, goes_on.set).start()
    await log.close()
    assert written, "its end comes before that of close"
    generations.changed()  # e.g. by a peer that it met just then
    assert len(written) == 1, "a node that has stopped writes nothing"
