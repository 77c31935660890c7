"""A topic that an administrator makes while another change of it is on its way: true answers."""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from cluster.protocol.headers import CREATE_ONLY
from dledger.errors import NotLeader

from .conftest import MakeBrokers
from .harness import RawClient, nothing_is_appended, until

NAME = "orders"
ORDERS: dict[str, Any] = {
    "topic": NAME, "defaultTopic": "TBW102", "readQueueNums": 12, "writeQueueNums": 12,
    "perm": 4, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
}  # fmt: skip


def asks(client: RawClient, **change: Any) -> asyncio.Future[Frame]:
    return asyncio.ensure_future(client.ask(Code.UPDATE_AND_CREATE_TOPIC, {**ORDERS, **change}))


def row_of(leader: BrokerNode) -> tuple[int, int, int] | None:
    row = leader.parts.state.topics.get(NAME)
    return None if row is None else (row.read_queues, row.write_queues, row.perm)


def waiting(leader: BrokerNode) -> int:
    return leader.parts.writer.topics_in_log.waiting


def changes(leader: BrokerNode) -> int:
    return len(leader.parts.writer.topics_in_log)


async def test_it_meets_the_creation_by_a_first_send(make_brokers: MakeBrokers) -> None:
    """And has one audit entry, though it was begun twice."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        sender, chief = await brokers.client(leader), await brokers.client(leader)
        with nothing_is_appended(leader):
            sent = asyncio.ensure_future(sender.send(topic=NAME))
            await until(lambda: leader.parts.writer.is_creating(NAME), "a send makes the topic")
            made = asks(chief)
            await until(lambda: waiting(leader), "the administrator's waits")
        assert ((await sent).code, (await made).code) == (0, 0)
        assert row_of(leader) == (12, 12, 4)
        assert not changes(leader)
        assert leader.parts.state.queue_ends("rmq_sys_dledger_audit", 1) == [1]


async def test_it_meets_another_administrators(make_brokers: MakeBrokers) -> None:
    """The second, of stock clients, is a change of what the first made."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        one, other = await brokers.client(leader), await brokers.client(leader)
        with nothing_is_appended(leader):
            first = asks(one, readQueueNums=3, writeQueueNums=3, perm=6)
            await until(lambda: changes(leader), "the first is proposed")
            second = asks(other)
            await until(lambda: waiting(leader), "the second waits")
        assert ((await first).code, (await second).code) == (0, 0)
        assert row_of(leader) == (12, 12, 4)


async def test_that_it_is_refused_is_told(make_brokers: MakeBrokers) -> None:
    """mqadmin's default of 8 queues shrinks no topic; one that is not there it makes."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        one, other = await brokers.client(leader), await brokers.client(leader)
        with nothing_is_appended(leader):
            first = asks(one)
            await until(lambda: changes(leader), "the first is proposed")
            second = asks(other, readQueueNums=8, writeQueueNums=8)
            await until(lambda: waiting(leader), "the second waits")
        assert (await first).code == 0
        refused = await second
        assert (refused.code, "has 12 queues" in refused.remark) == (29, True), refused.remark
        assert row_of(leader) == (12, 12, 4)


async def test_it_meets_a_deletion(make_brokers: MakeBrokers) -> None:
    """The new topic has nothing of the one before."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        one, other = await brokers.client(leader), await brokers.client(leader)
        assert (await asks(one, attributes="+message.type=FIFO")).code == 0
        with nothing_is_appended(leader):
            code = Code.DELETE_TOPIC_IN_BROKER
            gone = asyncio.ensure_future(one.ask(code, {"topic": NAME}))
            await until(lambda: changes(leader), "the deletion is proposed")
            made = asks(other, intent=CREATE_ONLY)
            await until(lambda: waiting(leader), "the creation waits")
        assert ((await gone).code, (await made).code) == (0, 0)
        found = leader.parts.state.topics.get(NAME)
        assert found is not None
        assert (found.write_queues, dict(found.attributes)) == (12, {})


async def test_what_waits_when_the_leadership_ends_asks_the_next_leader(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        told: list[Exception | None] = []
        writer = leader.parts.writer
        with nothing_is_appended(leader):
            one = await brokers.client(leader)
            first = asks(one)
            await until(lambda: changes(leader), "the first is proposed")
            assert writer.waits_for(NAME, told.append)
            assert not writer.waits_for("another", told.append)
            writer.leadership_ended()
            assert [type(error) for error in told] == [NotLeader]
            assert (changes(leader), waiting(leader)) == (0, 0)
        assert (await first).code == 0
        assert len(told) == 1
