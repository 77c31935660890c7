"""Sealed requests that somebody recorded, sent again; and our own client, which seals."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import cluster
from cluster.broker.node import BrokerNode
from cluster.client import Account, Client, ClientConfig, ConsumerConfig, ProducerConfig
from cluster.core.access.seal import NONCE_SIZE, SEAL, make_seal
from cluster.core.access.signature import sign
from cluster.errors import NotConnected
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import VERSION_OWN
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from dledger.runtime.clock import Clock, SystemClock
from tests.waiting import eventually, limit, within

from .access_world import ACCOUNTS, SETTINGS, TOPIC, Ask, new_topic, send
from .conftest import MakeBrokers
from .harness import Brokers, until, without_refusals
from .test_signatures import NO_PERMISSION, last, recorded, say, start

STRICT = f"""\
{ACCOUNTS}
- accessKey: account-strict
  secretKey: secret-of-account-strict
  sealed: required
  admin: true
"""
STALE = 31906
_numbers = itertools.count()


@pytest.fixture
def accounts(tmp_path: Path) -> str:
    file = tmp_path / "plain_acl.yml"
    file.write_text(STRICT)
    return str(file)


def sealed(clock: Clock, code: int, ask: Ask, key: str) -> Frame:
    """One request as our own client signs it."""
    ext = {name: str(value) for name, value in ask.ext.items()} | {"AccessKey": key}
    nonce = f"{next(_numbers):0{NONCE_SIZE}x}"
    ext[SEAL] = make_seal(code, ext, len(ask.body), clock.time_ms(), nonce).text()
    ext["Signature"] = sign(ext, ask.body, f"secret-of-{key}", VERSION_OWN)
    return Frame(code, 1, ext, ask.body, version=VERSION_OWN)


async def move(brokers: Brokers) -> BrokerNode:
    """The leader, which another node is from now on."""
    leader = await brokers.leader()
    moved = asyncio.get_running_loop().create_future()
    leader.parts.log.transfer(None, moved.set_result)
    await within(moved, "a planned move")
    found = await brokers.leader()
    assert found is not leader
    return found


@pytest.mark.parametrize("first", [0, 1, 2])
async def test_a_seal_is_good_once_whatever_node_it_comes_to(
    make_brokers: MakeBrokers, accounts: str, first: int
) -> None:
    """`first`: where the client sends it: the leader (0) or a follower, which passes it on."""
    async with make_brokers(3, acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        nodes = [leader, *(node for node in brokers.running() if node is not leader)]
        client, thief = brokers.hosts[:2]
        frame = sealed(brokers.clock, Code.SEND_MESSAGE_V2, send(TOPIC), "account-write")
        assert (await say(nodes[first], frame, client)).code == 0
        stored = last(leader)
        for node in nodes:
            for host in (client, thief):
                answer = await say(node, frame, host)
                assert (answer.code, "used before" in (answer.remark or "")) == (16, True)
        assert last(leader) == stored


async def test_a_seal_is_good_in_no_later_leadership(
    make_brokers: MakeBrokers, accounts: str
) -> None:
    """Who leads now cannot know what the leader before was asked."""
    async with make_brokers(3, acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        host = brokers.hosts[0]
        frames = [
            sealed(brokers.clock, Code.SEND_MESSAGE_V2, send(TOPIC), "account-write"),
            sealed(brokers.clock, Code.UPDATE_AND_CREATE_TOPIC, new_topic("more"), "account-admin"),
        ]
        for frame in frames:
            assert (await say(leader, frame, host)).code == 0
        for node in brokers.running():
            without_refusals(node.parts)
        stored, late = last(leader), await move(brokers)
        (other,) = (node for node in brokers.running() if node not in (leader, late))
        # It comes to the new leader first, or through a follower that has not seen it either.
        for frame, nodes in zip(frames, ((late, other), (other, late)), strict=True):
            answer = await say(nodes[0], frame, host)
            assert (answer.code, len(answer.ext["sealTime"])) == (STALE, 13)
            for node in (nodes[1], leader):
                assert (await say(node, frame, host)).code == NO_PERMISSION
        fresh = sealed(brokers.clock, Code.SEND_MESSAGE_V2, send(TOPIC), "account-write")
        assert (await say(late, fresh, host)).code == 0
        assert last(late) == stored + 2, "the new leadership's own entry, and the new send"


async def test_what_waited_for_a_leader_is_no_older_than_the_leader(
    make_brokers: MakeBrokers, accounts: str
) -> None:
    """A node that waits for a leader takes a recorded request in, and does not serve it later."""
    patient = {**SETTINGS, "leader_wait_seconds": limit(60)}  # a slow machine starts a node late
    async with make_brokers(3, acl_file=accounts, **patient) as brokers:
        leader = await start(brokers)
        host = brokers.hosts[0]
        frame = sealed(brokers.clock, Code.SEND_MESSAGE_V2, send(TOPIC), "account-write")
        assert (await say(leader, frame, host)).code == 0
        numbers = [n for n, node in enumerate(brokers.nodes) if node is not leader]
        other = brokers.nodes[numbers[0]]
        assert other is not None
        for number in range(3):
            if brokers.nodes[number] is not other:
                await brokers.stop_node(number)
        leadership = other.parts.leadership
        await until(lambda: leadership.serving.value == "waiting")
        stolen = asyncio.create_task(say(other, frame, host))
        await until(lambda: bool(leadership._held), "the request waits")
        await brokers.start_node(numbers[1])
        answer = await stolen
        assert answer.code == STALE


async def test_a_node_that_starts_takes_nothing_of_before(
    make_brokers: MakeBrokers, accounts: str
) -> None:
    async with make_brokers(acl_file=accounts, **SETTINGS) as brokers:
        await start(brokers)
        host = brokers.hosts[0]
        look = Ask({"topic": TOPIC})
        frame = sealed(brokers.clock, Code.GET_TOPIC_STATS_INFO, look, "account-admin")
        assert (await say(await brokers.leader(), frame, host)).code == 0
        await brokers.stop_node(0)
        await brokers.next_millisecond()
        await brokers.start_node(0)
        assert (await say(await brokers.leader(), frame, host)).code == STALE


HOUR_MS = 3_600_000


async def test_a_seal_of_a_clock_that_was_ahead_is_good_in_no_later_life(
    make_brokers: MakeBrokers, accounts: str
) -> None:
    """The clock is put right while the node is down, and comes to those stamps once more."""
    async with make_brokers(1, acl_file=accounts, **SETTINGS) as brokers:
        host, clock = brokers.hosts[0], brokers.clock
        clock.put_forward(HOUR_MS)
        leader = await start(brokers)
        stamp_ms = clock.time_ms()
        frame = sealed(clock, Code.SEND_MESSAGE_V2, send(TOPIC), "account-write")
        assert (await say(leader, frame, host)).code == 0
        await brokers.stop_node(0)
        clock.put_forward(-HOUR_MS)
        await brokers.start_node(0)
        leader = await brokers.leader()
        clock.put_forward(stamp_ms - 500 - clock.time_ms())
        stored = last(leader)
        assert (await say(leader, frame, host)).code == STALE
        assert last(leader) == stored


async def test_a_seal_stamped_ahead_is_good_in_no_later_leadership(
    make_brokers: MakeBrokers, accounts: str
) -> None:
    """Its client's clock is ahead by less than is refused, and the lead moves within that."""
    async with make_brokers(3, acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        host = brokers.hosts[0]
        brokers.clock.put_forward(900)
        ahead = sealed(brokers.clock, Code.SEND_MESSAGE_V2, send(TOPIC), "account-write")
        brokers.clock.put_forward(-900)
        assert (await say(leader, ahead, host)).code == 0
        late = await move(brokers)
        stored = last(late)
        assert (await say(late, ahead, host)).code == STALE
        assert last(late) == stored


async def test_a_sealed_request_is_no_other_one(make_brokers: MakeBrokers, accounts: str) -> None:
    async with make_brokers(acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        host = brokers.hosts[0]
        look = sealed(
            brokers.clock, Code.GET_TOPIC_STATS_INFO, Ask({"topic": TOPIC}), "account-admin"
        )
        stripped = {"1" if name == SEAL else name: value for name, value in look.ext.items()}
        for changed in (
            look._replace(code=int(Code.DELETE_TOPIC_IN_BROKER)),
            look._replace(ext=stripped),
            look._replace(ext=stripped, code=int(Code.DELETE_TOPIC_IN_BROKER)),
        ):
            answer = await say(leader, changed, host)
            assert answer.code == NO_PERMISSION
            assert "changed on its way" in (answer.remark or "")
        access = leader.parts.access
        assert access is not None
        assert access.refused == 3
        assert (await say(leader, look, host)).code == 0, "the topic is there"


async def test_an_account_may_want_seals(make_brokers: MakeBrokers, accounts: str) -> None:
    async with make_brokers(acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        host, look = brokers.hosts[0], Ask({"topic": TOPIC})
        stock = recorded(Code.GET_TOPIC_STATS_INFO, look, "account-strict")
        answer = await say(leader, stock, host)
        assert (answer.code, "sealed requests only" in (answer.remark or "")) == (16, True)
        frame = sealed(brokers.clock, Code.GET_TOPIC_STATS_INFO, look, "account-strict")
        assert (await say(leader, frame, host)).code == 0


async def test_a_name_server_takes_a_seal_once(
    accounts: str, new_address: Callable[[], str]
) -> None:
    set_key = Ask({"namespace": "N", "key": "k", "value": "v"})
    async with NameServer(new_address(), 9876, acl_file=Path(accounts)) as server:
        host, clock = new_address(), SystemClock()
        frame = sealed(clock, Code.PUT_KV_CONFIG, set_key, "account-admin")
        stolen = frame._replace(code=int(Code.DELETE_KV_CONFIG))
        assert (await say(server, stolen, host)).code == NO_PERMISSION
        assert (await say(server, frame, host)).code == 0
        assert (await say(server, frame, host)).code == NO_PERMISSION
        stock = recorded(Code.PUT_KV_CONFIG, set_key, "account-strict")
        assert (await say(server, stock, host)).code == NO_PERMISSION


# ---- our own client ------------------------------------------------------------------------------


@asynccontextmanager
async def strict(
    make_brokers: MakeBrokers, accounts: str, address: str, number: int
) -> AsyncIterator[tuple[Brokers, Client]]:
    """Brokers and a name server with accounts; a client whose account takes seals only."""
    account = Account("account-strict", "secret-of-account-strict")
    config = ClientConfig(account=account, request_timeout=limit(10), stall_timeout=0.1)
    async with NameServer(
        address, 9876, warm_up_seconds=0.0, acl_file=Path(accounts), cluster_secret="one for all"
    ) as server:
        settings = {
            **SETTINGS,
            "acl_file": accounts,
            "name_servers": (server.address,),
            "cluster_secret": "one for all",
        }
        async with (
            make_brokers(number, **settings) as brokers,
            cluster.connect(server.address, config) as mq,
        ):

            async def is_created() -> bool:
                try:
                    return bool(await mq.admin().create_topic(TOPIC, 2))
                except NotConnected:
                    return False

            await eventually(is_created, "the topic")
            yield brokers, mq


@pytest.mark.parametrize("off_ms", [-20_000, 20_000])
async def test_a_client_whose_clock_is_wrong_is_served(
    make_brokers: MakeBrokers,
    accounts: str,
    new_address: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    off_ms: int,
) -> None:
    wrong = SimpleNamespace(time_ns=lambda: time.time_ns() + off_ms * 1_000_000)
    monkeypatch.setattr("cluster.client.connection.signed_connection.time", wrong)
    async with strict(make_brokers, accounts, new_address(), 1) as (_, mq):
        async with mq.producer() as producer:
            sends = (producer.send(TOPIC, b"%d" % n) for n in range(20))
            receipts = await asyncio.gather(*sends)
        places = {(receipt.queue.queue_id, receipt.queue_offset) for receipt in receipts}
        assert len(places) == 20
        assert (await mq.admin().describe_topic(TOPIC)).message_count == 20


async def test_moves_of_the_lead_cost_a_sealing_client_nothing(
    make_brokers: MakeBrokers, accounts: str, new_address: Callable[[], str]
) -> None:
    """Each attempt is sealed anew; numbered sends are stored once whatever is repeated."""
    async with strict(make_brokers, accounts, new_address(), 3) as (brokers, mq):
        over, sent = asyncio.Event(), list[bytes]()

        async def work() -> None:
            async with mq.producer(config=ProducerConfig(batching=False)) as producer:
                while not over.is_set():
                    bodies = [b"%d" % (len(sent) + n) for n in range(10)]
                    sent.extend(bodies)
                    await asyncio.gather(*(producer.send(TOPIC, body) for body in bodies))

        async def after(count: int) -> None:
            await until(lambda: len(sent) > count or working.done(), "more sends")

        working = asyncio.create_task(work())
        for _ in range(2):
            await after(len(sent) + 20)
            await move(brokers)
            await mq.admin().create_topic(TOPIC, 2)
        await after(len(sent) + 20)
        over.set()
        await working
        config = ConsumerConfig(start="first")
        async with mq.consumer(TOPIC, group="readers", config=config) as consumer:
            found = [(await consumer.receive(limit(10))) for _ in sent]
            assert await consumer.receive(0.05) is None
        assert sorted(m.body for m in found if m is not None) == sorted(sent)
