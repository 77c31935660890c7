"""Our own client's calls that need a broker's services: delays, recalls, transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import cluster
from cluster.client import Client, ClientConfig, Decision, Producer, ReceivedMessage, blocking
from cluster.errors import ClientClosed, IllegalOperation, InvalidRequest, NotConnected, ServerError
from cluster.nameserver.server import NameServer
from tests.waiting import eventually, limit

from .conftest import MakeBrokers
from .harness import Brokers, until

QUICK = ClientConfig(stall_timeout=0.1, request_timeout=limit(10), replica_fallback=0.3)
CHECKS: dict[str, Any] = {"transaction_timeout_ms": 100, "transaction_check_interval_ms": 100}


@asynccontextmanager
async def serving(
    make_brokers: MakeBrokers, address: str, number: int = 1, **settings: Any
) -> AsyncIterator[tuple[Brokers, Client]]:
    """Brokers, a name server, and a client that knows the topic T."""
    async with NameServer(address, 9876, warm_up_seconds=0.0) as server:
        name_servers = (server.address,)
        async with (
            make_brokers(number, name_servers=name_servers, **settings) as brokers,
            cluster.connect(server.address, QUICK) as mq,
        ):
            await create(mq, "T")
            yield brokers, mq


async def create(mq: Client, topic: str) -> None:
    """A topic with one queue, as soon as the broker is registered."""

    async def is_created() -> bool:
        try:
            await mq.admin().create_topic(topic, 1)
        except NotConnected:
            return False
        return True

    await eventually(is_created, f"the topic {topic}")


async def next_body(mq: Client, limit: float = 3.0) -> bytes | None:
    async with mq.reader("T") as reader:
        found = await reader.receive(limit)
    return found.body if found else None


async def test_a_delayed_message_comes_when_it_is_due(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (brokers, mq), mq.producer() as producer:
        before = brokers.clock.time_ms() / 1000
        receipt = await producer.send_delayed("T", b"later", delay=0.4, key="k", tags="a")
        await producer.send_delayed("T", b"at a time", deliver_at=before + 0.8)
        await producer.send_delayed("T", b"over already", deliver_at=before - 60)
        async with mq.reader("T") as reader:
            found = [message for _ in range(3) if (message := await reader.receive(30.0))]
        assert brokers.clock.time_ms() / 1000 >= before + 0.8
        bodies = [message.body for message in found]
        assert sorted(bodies) == [b"at a time", b"later", b"over already"]
        later = found[bodies.index(b"later")]
        assert (later.keys, later.tags) == (["k"], "a")
        assert later.message_id == receipt.message_id


async def test_what_is_recalled_is_never_delivered(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq), mq.producer() as producer:
        first = await producer.send_delayed("T", b"recalled", delay=1.0)
        at = await producer.send_delayed("T", b"recalled too", deliver_at=time.time() + 1.0)
        level = await producer.send_delayed("T", b"stays", delay_level=1)
        await producer.recall(first)
        await producer.recall(at)
        with pytest.raises(IllegalOperation):
            await producer.recall(first)
        with pytest.raises(InvalidRequest, match="cannot be recalled"):
            await producer.recall(level)
        async with mq.reader("T") as reader:
            message = await reader.receive(4.0)
            assert message is not None
            assert message.body == b"stays"
            assert await reader.receive(0.3) is None


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"delay": 1.0, "delay_level": 1},
        {"delay": -1.0},
        {"deliver_at": float("nan")},
        {"delay": float("inf")},
    ],
)
async def test_delays_that_say_nothing(when: dict[str, Any]) -> None:
    async with cluster.connect("127.0.0.1:1", QUICK) as mq, mq.producer() as producer:
        with pytest.raises(InvalidRequest, match="exactly one"):
            await producer.send_delayed("T", b"x", **when)


def never_asked(message: ReceivedMessage) -> Decision:
    raise AssertionError(f"asked about {message.body!r}")


async def test_a_transaction_is_committed_or_rolled_back(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with (
        serving(make_brokers, new_address()) as (_, mq),
        mq.transaction_producer("PG", never_asked) as producer,
    ):
        async with await producer.begin("T", b"committed", key="k") as first:
            assert await next_body(mq, 0.2) is None, "nobody sees it before the commit"
        assert first.decision is Decision.COMMIT
        with pytest.raises(KeyError):
            async with await producer.begin("T", b"rolled back") as second:
                raise KeyError("the local work failed")
        assert second.decision is Decision.ROLLBACK
        await first.commit()  # once more does no harm
        with pytest.raises(ServerError):
            await first.rollback()
        async with mq.reader("T") as reader:
            found = await reader.receive(3.0)
            assert found is not None
            assert (found.body, found.keys) == (b"committed", ["k"])
            assert found.message_id == first.receipt.message_id
            assert await reader.receive(0.2) is None


async def test_a_producer_is_asked_about_what_another_one_left(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    asked: list[bytes] = []

    async def check(message: ReceivedMessage) -> Decision:
        asked.append(message.body)
        if asked.count(message.body) == 1:
            raise OSError("the database is away")
        return Decision.ROLLBACK if message.tags == "no" else Decision.COMMIT

    async with serving(make_brokers, new_address(), **CHECKS) as (_, mq):
        async with mq.transaction_producer("PG", never_asked) as gone:
            await gone.begin("T", b"unwanted", tags="no")
            await gone.begin("T", b"wanted")
        async with mq.transaction_producer("other", never_asked) as stranger:
            await stranger.open_topic("T")
            async with mq.transaction_producer("PG", check) as producer:
                await producer.open_topic("T")
                assert await next_body(mq) == b"wanted"
                await until(lambda: asked.count(b"unwanted") >= 2)
        assert asked.count(b"wanted") >= 2


async def test_who_is_abandoned_says_no_more_and_others_are_asked(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address(), **CHECKS) as (_, mq):
        gone = mq.transaction_producer("PG", never_asked)
        await gone.begin("T", b"left")
        gone.abandon()
        with pytest.raises(ClientClosed):
            await gone.begin("T", b"more")
        async with mq.transaction_producer("PG", lambda _: Decision.COMMIT) as producer:
            await producer.open_topic("T")
            assert await next_body(mq) == b"left"


async def test_a_commit_finds_the_next_leader(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with (
        serving(make_brokers, new_address(), 3) as (brokers, mq),
        mq.transaction_producer("PG", never_asked) as producer,
    ):
        transaction = await producer.begin("T", b"survives")
        leader = await brokers.leader()
        await brokers.stop_node(int(leader.config.node_id[1:]))
        await transaction.commit()
        await transaction.commit()
        assert await next_body(mq) == b"survives"


async def test_the_blocking_twin(make_brokers: MakeBrokers, new_address: Callable[[], str]) -> None:
    async with serving(make_brokers, new_address(), **CHECKS) as (brokers, _):
        (address,) = brokers.settings["name_servers"]

        def work() -> list[bytes]:
            with blocking.connect(address, QUICK) as mq:
                with mq.producer() as producer:
                    producer.recall(producer.send_delayed("T", b"recalled", delay=30.0))
                with mq.transaction_producer("PG", lambda _: Decision.COMMIT) as producer:
                    with producer.begin("T", b"committed"):
                        pass
                    producer.begin("T", b"left")
                    with mq.reader("T") as reader:
                        return [m.body for _ in range(2) if (m := reader.receive(3.0))]

        assert await asyncio.to_thread(work) == [b"committed", b"left"]


def test_only_single_messages_can_be_transactions() -> None:
    config = cluster.ProducerConfig(batching=True)

    async def work() -> None:
        async with cluster.connect("127.0.0.1:1", QUICK) as mq:
            assert isinstance(mq.producer(config=config), Producer)
            with pytest.raises(InvalidRequest, match="batch"):
                mq.transaction_producer("PG", never_asked, config)

    asyncio.run(work())


async def test_a_topic_says_its_durability(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (brokers, mq):
        level, admin = cluster.Durability.MAJORITY_IN_MEMORY, mq.admin()
        assert (await admin.topic_settings("T")).durability is None
        await admin.alter_topic("T", durability=level)
        assert (await admin.topic_settings("T")).durability is level
        acknowledged = (await brokers.leader()).parts.appender.acknowledged
        before = acknowledged[level]
        config = cluster.ProducerConfig(durability=cluster.Durability.MAJORITY_ON_DISK)
        async with mq.producer(config=config) as strong, mq.producer() as early:
            await strong.send("T", b"strong")
            assert acknowledged[level] == before
            await asyncio.gather(*(early.send("T", b"early") for _ in range(3)))
            assert acknowledged[level] == before + 3
