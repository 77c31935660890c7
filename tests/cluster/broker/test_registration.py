"""How often a broker registers: at once for its role, at a bounded cost for new topics."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cluster.broker.config import BrokerConfig
from cluster.broker.registration import TOPICS_WAIT_FACTOR, Registered, Registrar
from cluster.nameserver.access import Guard, Rule
from cluster.nameserver.kv_config import NOTIFY_ROUTES, SETTINGS
from cluster.nameserver.server import NameServer
from cluster.protocol.frames import FRAME_SIZE_MAX, HEADER_SIZE_MAX
from cluster.protocol.topics import TopicConfig
from dledger.runtime.owned import Owned
from tests.waiting import eventually

from .conftest import MakeBrokers
from .harness import until

HOST, PORT = "127.0.0.9", 9876
SECRET = "one for all of this test"
MADE_SECONDS = 0.02


class _Broker:
    """A registrar whose registrations take `MADE_SECONDS` of its loop to make."""

    def __init__(
        self,
        folder: Path,
        secret: str | None = None,
        now_ms: int = 1,
        groups: str = "",
        name_servers: tuple[str, ...] = (f"{HOST}:{PORT}",),
    ) -> None:
        self.now_ms, self.topics = now_ms, ["T"]
        self.failed: list[BaseException] = []
        config = BrokerConfig(
            node_id="n0", root=folder, name_servers=name_servers, cluster_secret=secret
        )
        self.spent, self.leads = 0.0, True
        self.registrar = Registrar(
            config,
            "10.0.0.1:10911",
            Owned(self.failed.append),
            current=self._current,
            version=lambda: (1, 1),
            now_ms=lambda: self.now_ms,
            notified=lambda: groups,
            used=lambda: self.spent,
        )

    def _current(self) -> Registered | None:
        self.spent += MADE_SECONDS
        return Registered(0, 1, None, [TopicConfig(t) for t in self.topics]) if self.leads else None


@pytest.mark.virtual_time
async def test_many_new_topics_are_registered_together(tmp_path: Path) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0):
        broker = _Broker(tmp_path)
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 1, "the first registration")
        began = asyncio.get_running_loop().time()
        for _ in range(100):
            registrar.announce_topics()
            await asyncio.sleep(0.001)
        assert registrar.registrations == 1
        await eventually(lambda: registrar.registrations == 2, "the topics' registration")
        waited = asyncio.get_running_loop().time() - began
        assert waited == pytest.approx(TOPICS_WAIT_FACTOR * MADE_SECONDS, abs=0.05)
        await registrar.close()


@pytest.mark.virtual_time
async def test_a_change_of_role_does_not_wait(tmp_path: Path) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0):
        broker = _Broker(tmp_path)
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 1, "the first registration")
        registrar.announce_topics()
        began = asyncio.get_running_loop().time()
        registrar.announce()
        await eventually(lambda: registrar.registrations == 2, "the role's registration")
        assert asyncio.get_running_loop().time() - began < MADE_SECONDS
        await registrar.close()


@pytest.mark.virtual_time
async def test_a_topic_after_a_quiet_time_does_not_wait(tmp_path: Path) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0):
        broker = _Broker(tmp_path)
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 1, "the first registration")
        await asyncio.sleep(TOPICS_WAIT_FACTOR * MADE_SECONDS)
        began = asyncio.get_running_loop().time()
        registrar.announce_topics()
        await eventually(lambda: registrar.registrations == 2, "the topic's registration")
        assert asyncio.get_running_loop().time() - began < MADE_SECONDS
        await registrar.close()


@pytest.mark.virtual_time
async def test_a_node_that_stops_without_a_leader_leaves_the_routes(tmp_path: Path) -> None:
    """It says the term of its last registration; -1 would be one of before that."""
    async with NameServer(HOST, PORT, warm_up_seconds=0.0) as server:
        broker = _Broker(tmp_path)
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 1, "the first registration")
        assert server.registry.topics() == ["T"]
        broker.leads = False
        await registrar.close()
        assert server.registry.is_empty


@pytest.mark.virtual_time
async def test_each_registration_is_stamped_later_than_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A name server takes each stamp once, and a broker may register twice in a millisecond."""
    async with NameServer(HOST, PORT, warm_up_seconds=0.0, cluster_secret=SECRET) as server:
        broker = _Broker(tmp_path, secret=SECRET, now_ms=time.time_ns() // 1_000_000)
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 1, "the first registration")
        registrar.announce()
        await eventually(lambda: registrar.registrations == 2, "the second registration")
        await registrar.close()
        assert server.registry.is_empty
    assert "refused" not in caplog.text


@pytest.mark.virtual_time
@pytest.mark.parametrize("back_ms", [20_000, 3_600_000])
async def test_a_clock_that_is_set_back_costs_no_registration(tmp_path: Path, back_ms: int) -> None:
    """As on one machine: the name server's clock is set back as well."""
    ahead_ms = 1_800_000_000_000
    broker = _Broker(tmp_path, secret=SECRET, now_ms=ahead_ms)
    guard = Guard(None, SECRET, lambda: broker.now_ms)
    said = broker._current()
    assert said is not None
    for number in range(4):
        guard.check(Rule.NODE, "10.0.0.1:1", broker.registrar._frame(said, number))
        broker.now_ms = ahead_ms - back_ms


@pytest.mark.virtual_time
@pytest.mark.parametrize(("on", "groups"), [(False, "x" * HEADER_SIZE_MAX), (True, "g:2")])
async def test_name_servers_are_told_of_groups_when_they_ask(
    tmp_path: Path, on: bool, groups: str
) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0, notify_routes=on) as server:
        broker = _Broker(tmp_path, groups=groups)
        registrar = broker.registrar
        registrar.start()
        wanted = 1 + on
        await eventually(lambda: registrar.registrations == wanted, "told, and asked")
        assert registrar.is_asked_for_groups is on
        told = server.registry._brokers["broker-a"].notified
        assert (told is not None) is on
        await registrar.close()
    assert broker.failed == []


@pytest.mark.virtual_time
async def test_groups_without_room_in_a_header_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0, notify_routes=True) as server:
        broker = _Broker(tmp_path, groups="x" * HEADER_SIZE_MAX)
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 3, "it goes on")
        assert server.registry._brokers["broker-a"].notified is None
        await registrar.close()
    assert "is told of no groups" in caplog.text
    assert broker.failed == []


@pytest.mark.virtual_time
async def test_a_registration_that_no_frame_can_hold_does_not_end_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0) as server:
        broker = _Broker(tmp_path)
        broker.topics = ["T" * FRAME_SIZE_MAX]
        registrar = broker.registrar
        registrar.start()
        await eventually(lambda: registrar.failures == 1, "it is not sent")
        broker.topics = ["T"]
        await eventually(lambda: registrar.registrations == 1, "the next one is")
        assert server.registry.topics() == ["T"]
        await registrar.close()
    assert "was not sent" in caplog.text
    assert broker.failed == []


@pytest.mark.virtual_time
async def test_a_name_server_that_asks_no_more_is_told_no_more(tmp_path: Path) -> None:
    async with NameServer(HOST, PORT, warm_up_seconds=0.0, notify_routes=True) as server:
        registrar = _Broker(tmp_path, groups="g:2").registrar
        registrar.start()
        await eventually(lambda: registrar.registrations == 2, "told, and asked")
        await server._kv_config.put(SETTINGS, NOTIFY_ROUTES, "false")
        await eventually(lambda: registrar.registrations == 4, "it has asked no more")
        assert not registrar.is_asked_for_groups
        assert server.registry._brokers["broker-a"].notified is None
        await registrar.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize("other", ["on", "off", "away"])
async def test_groups_are_told_where_all_name_servers_ask(tmp_path: Path, other: str) -> None:
    """A member that sees a notification route shares out other queues than one that does not."""
    second = "127.0.0.10"
    async with AsyncExitStack() as stack:
        servers = [NameServer(HOST, PORT, warm_up_seconds=0.0, notify_routes=True)]
        if other != "away":
            on = other == "on"
            servers.append(NameServer(second, PORT, warm_up_seconds=0.0, notify_routes=on))
        for server in servers:
            await stack.enter_async_context(server)
        names = (f"{HOST}:{PORT}", f"{second}:{PORT}")
        broker = _Broker(tmp_path, groups="g:2", name_servers=names)
        registrar = broker.registrar
        registrar.start()

        def told() -> list[bool]:
            rows = [server.registry._brokers.get("broker-a") for server in servers]
            return [row is not None and row.notified is not None for row in rows]

        await eventually(lambda: registrar.registrations >= 2 * len(servers), "all are told")
        assert told() == [other == "on"] * len(servers)
        assert registrar.is_asked_for_groups is (other == "on")
        if other != "away":
            value = str(other == "off").lower()
            await servers[1]._kv_config.put(SETTINGS, NOTIFY_ROUTES, value)
            await eventually(lambda: told() == [other == "off"] * 2, "both are told again")
        await registrar.close()
    assert broker.failed == []


async def test_followers_tell_name_servers_of_no_topics(make_brokers: MakeBrokers) -> None:
    """What the leader has said they would say again, with every topic there is."""
    told: list[str] = []
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        for node in brokers.running():
            name = node.parts.config.node_id
            node.parts.registrar.announce_topics = lambda name=name: told.append(name)  # type: ignore[method-assign,misc]
        client = await brokers.client(leader)
        assert (await client.send("orders")).code == 0
        for node in brokers.running():
            topics = node.parts.state.topics
            await until(lambda topics=topics: topics.get("orders") is not None)  # type: ignore[misc]
    assert told == [leader.parts.config.node_id]
