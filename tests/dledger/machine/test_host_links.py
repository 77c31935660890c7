"""Groups of two hosts share connections, each as strictly checked as one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import ReplicatedLog, ReplicatedNode
from dledger.core.types import NodeId
from dledger.membership.handshake import Dialler, LinkKind, Member, RefusalReason
from dledger.membership.proof import NONCE_SIZE
from dledger.objects.counter import ReplicatedCounter
from dledger.runtime.channels import Channel
from dledger.runtime.host_parts import HostParts
from dledger.runtime.link import Link, LinkSettings
from dledger.runtime.outbound import Outbound
from dledger.runtime.owned import Owned
from dledger.runtime.peer_tls import PeerTls
from tests.dledger.runtime.test_peer_tls import tls
from tests.virtual_loop import LoopClock
from tests.waiting import eventually

from .hosts import Hosts, leader_of
from .test_host import Adder


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path, new_address)
    yield made
    await made.close()


def parts_of(hosts: Hosts, name: str) -> HostParts:
    parts = hosts.hosts[name]._parts
    assert parts is not None
    return parts


def channels_of(log: ReplicatedLog) -> int:
    """How many of the connections that came to this node are channels."""
    came = log.driver.transport.inbound.values()
    return sum(isinstance(inbound.transport, Channel) for inbound in came)


async def all_channels(node: ReplicatedNode[int, int]) -> None:
    await eventually(lambda: channels_of(node.log) == 4, "two channels from each other host", 60)


@pytest.mark.parametrize("secured", [False, True])
async def test_groups_share_four_connections_with_each_other_host(
    hosts: Hosts, secured: bool
) -> None:
    if secured:
        for name, config in hosts.configs.items():
            secret = "a secret of sixteen letters and more"
            hosts.configs[name] = replace(config, secret=secret, **tls("enforcing", name))  # type: ignore[arg-type]
    await hosts.start()
    for group in ("a", "b"):
        nodes = await hosts.open(group, Adder)
        for node in nodes.values():
            await node.propose(1)
            await all_channels(node)
    for name in hosts.hosts:
        parts = parts_of(hosts, name)
        assert len(parts.links.accepted) == 4
        assert not parts.port.greeting
        assert not parts.port._greeting_channels


async def test_a_node_alone_with_hosts(hosts: Hosts) -> None:
    """It may be of an older release: it refuses carriers, and is dialled by itself."""
    await hosts.start("n0", "n1")
    config = replace(hosts.hosts["n0"].config_of("a"), node_id="n2")
    config = replace(config, data_dir=Path(hosts.configs["n2"].data_dir, "a"))
    alone = ReplicatedNode[int, int](config, Adder(), create=True, clock=LoopClock())
    await alone.start()
    nodes = await hosts.open("a", Adder)
    for number, node in enumerate((alone, *nodes.values()), start=1):
        assert await node.propose(1) == number
    for node in nodes.values():
        await eventually(lambda node=node: channels_of(node.log) == 2, "the other host's", 60)
    assert channels_of(alone.log) == 0
    await alone.close()


async def test_a_group_that_ends_takes_its_channels_only(hosts: Hosts) -> None:
    await hosts.start()
    gone, stays = await hosts.open("gone", Adder), await hosts.open("stays", Adder)
    for node in (*gone.values(), *stays.values()):
        await all_channels(node)
    term = (await leader_of(stays)).log.driver.replica.node.term
    links = stays["n1"].log.status().links
    await gone["n0"].close()
    await eventually(lambda: channels_of(gone["n1"].log) == 2, "that its channels end", 60)
    assert channels_of(stays["n1"].log) == 4
    assert all(link.open for link in links.values())
    assert (await leader_of(stays)).log.driver.replica.node.term == term


async def test_channels_are_dialled_again_when_their_connection_breaks(hosts: Hosts) -> None:
    await hosts.start()
    nodes = await hosts.open("a", Adder)
    for node in nodes.values():
        await all_channels(node)
    for inbound, _ in parts_of(hosts, "n0").links.accepted.values():
        inbound.close()
    await eventually(lambda: channels_of(nodes["n0"].log) < 4, "that its channels end", 60)
    await all_channels(nodes["n0"])
    for node in nodes.values():
        await node.propose(1)


async def test_a_wrong_secret_is_told_by_each_group(hosts: Hosts) -> None:
    hosts.configs["n0"] = replace(hosts.configs["n0"], secret="a secret of sixteen letters")
    hosts.configs["n1"] = replace(hosts.configs["n1"], secret="another one of sixteen or more")
    await hosts.start("n0", "n1")
    nodes = await hosts.open("a", Adder)

    def refused() -> bool:
        status = nodes["n0"].log.status().links["n1/control"]
        return status.refusal == RefusalReason.WRONG_SECRET

    await eventually(refused, "that n1 refuses n0", 60)
    assert not parts_of(hosts, "n1").links.accepted


async def test_who_gives_up_waiting_for_a_host_is_forgotten(hosts: Hosts) -> None:
    """A host may be away for days, and every group asks for it every few seconds."""
    await hosts.start("n0")
    link = parts_of(hosts, "n0").links.links[NodeId("n1"), LinkKind.BULK]
    waiting = [asyncio.ensure_future(link.carrier()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(link._waiting) == 3
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    assert not link._waiting


async def test_a_group_makes_no_attempt_while_a_host_is_away(hosts: Hosts) -> None:
    """A thousand groups would take a processor's time from the elections that are due then."""
    away = Away()
    settings = LinkSettings.of(hosts.configs["n0"], NodeId("n1"), LinkKind.BULK, None)
    me = Member("c", "g", NodeId("n0"), 1)
    link = Link(settings, lambda: me, lambda *_: None, lambda: 0.5, lambda *_: None, away)
    link.start(Owned(lambda error: pytest.fail(str(error))))
    await asyncio.sleep(0)
    assert link.status().error == "its host is away"
    for _ in range(100):
        link.dial_now()
        await asyncio.sleep(0)
    assert away.attempts == 0
    away.comes.set()
    await eventually(lambda: away.attempts == 1, "an attempt on the host's carrier", 10)
    await link.stop()


class Away:
    """The connections of a host, one of which comes when it is told so."""

    def __init__(self) -> None:
        self.comes, self.attempts = asyncio.Event(), 0

    async def ready(self, settings: LinkSettings) -> None:
        await self.comes.wait()

    async def connect(self, settings: LinkSettings, outbound: Outbound) -> bool:
        self.attempts += 1
        raise ConnectionResetError

    def error(self, peer: NodeId, link_kind: LinkKind) -> str:
        return "" if self.comes.is_set() else "its host is away"

    def tells_clocks(self, peer: NodeId) -> bool:
        return False


class Broken:
    """The connections of a host that end at every attempt."""

    async def ready(self, settings: LinkSettings) -> None:
        pass

    async def connect(self, settings: LinkSettings, outbound: Outbound) -> bool:
        raise ConnectionResetError("the connection of the two hosts has ended")

    def error(self, peer: NodeId, link_kind: LinkKind) -> str:
        return ""


async def test_a_connection_of_hosts_that_breaks_is_no_quarrel_about_tls(hosts: Hosts) -> None:
    config = replace(hosts.configs["n0"], **tls("permissive", "n0"))  # type: ignore[arg-type]
    n0, n1 = map(NodeId, ("n0", "n1"))
    settings = LinkSettings.of(config, n1, LinkKind.BULK, None, tls=PeerTls.of(config))
    me = Member("c", "g", n0, 1)
    link = Link(settings, lambda: me, lambda *_: None, lambda: 0.5, lambda *_: None, Broken())
    assert await link._attempt() is None
    assert link.status().error == "the connection of the two hosts has ended"


async def test_a_channel_proves_the_secret_for_its_group(hosts: Hosts) -> None:
    """Who has come in as a host is not yet a member of any group."""
    secret = "a secret of sixteen letters"
    hosts.configs = {n: replace(c, secret=secret) for n, c in hosts.configs.items()}
    await hosts.start("n0")
    node = await hosts.open_on("n0", "a", Adder())
    inbound = parts_of(hosts, "n0").port.accept_channel(())
    kept = Kept()
    inbound.connection_made(kept)
    n0, n1 = map(NodeId, ("n0", "n1"))
    caller = Member(node.log.driver.transport.cluster_id, "a", n1, 7)
    dialler = Dialler(caller, n0, LinkKind.CONTROL, None, bytes(NONCE_SIZE), lambda *_: None)
    hello = dialler.start()
    inbound.get_buffer(-1)[: len(hello)] = hello
    inbound.buffer_updated(len(hello))
    assert b"do not share one cluster secret" in kept.answers
    assert kept.closed


class Kept(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.answers, self.closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answers += bytes(data)

    def close(self) -> None:
        self.closed = True


async def test_an_object_of_a_host_on_channels(hosts: Hosts) -> None:
    await hosts.start()
    counters = [
        await host.open_object("hits", ReplicatedCounter, create=True)
        for host in hosts.hosts.values()
    ]
    assert [await counter.add(1) for counter in counters] == [1, 2, 3]
