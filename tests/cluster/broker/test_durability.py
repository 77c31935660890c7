"""Sends acknowledged before the commit (R22): who may be, who never is, who says so.

A node that is alone is a majority; what it takes of three is in tests/dledger/core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from commitlog.records.batch import BatchItem, encode_client_batch
from dledger.producers.durability import Durability
from dledger.replica.ports import SyncWork
from dledger.runtime.sync_thread import SyncThread
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import OWN, Brokers, RawClient, bodies, until

IN_MEMORY = "majority-in-memory"
BATCH = RequestCode.SEND_BATCH_MESSAGE


@contextmanager
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every disk of the group stands still; what waited is synced at the end."""
    held: list[tuple[SyncThread, SyncWork]] = []
    with monkeypatch.context() as patch:
        patch.setattr(SyncThread, "submit", lambda lane, work: held.append((lane, work)))
        yield
    for lane, work in held:
        lane.submit(work)


async def create(client: RawClient, attributes: str, topic: str = "T") -> Frame:
    return await client.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2,
            "perm": 6, "topicFilterType": "SINGLE_TAG", "attributes": attributes,
        },
    )  # fmt: skip


async def ready(brokers: Brokers, **how: Any) -> tuple[BrokerNode, RawClient]:
    """The leader and a client of it; the topics Weak and Strong have a message each."""
    leader = await brokers.leader()
    client = await brokers.client(leader, **how)
    assert (await create(client, f"+durability={IN_MEMORY}", "Weak")).code == 0
    assert (await create(client, "", "Strong")).code == 0
    for topic in ("Weak", "Strong"):
        assert (await client.send(topic, body=b"first")).code == 0
    return leader, client


def acknowledged(node: BrokerNode, level: Durability = Durability.MAJORITY_IN_MEMORY) -> int:
    return node.parts.appender.acknowledged[level]


def batch_of(numbers: range) -> bytes:
    items = [BatchItem(0, b"b", b"__PID\x01q\x02__SEQ\x01%d\x02" % number) for number in numbers]
    return encode_client_batch(items)


async def test_a_topic_is_acknowledged_in_memory_and_read_from_disks(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(3) as brokers:
        leader, client = await ready(brokers)
        before = acknowledged(leader)
        with no_syncs(monkeypatch):
            strong = client.send("Strong", body=b"s")
            early = await within(client.send("Weak", body=b"e"), "an answer before any sync")
            assert (early.code, early.ext["queueOffset"]) == (0, "1"), early.remark
            assert acknowledged(leader) == before + 1
            assert not strong.done()
            assert (await client.pull("Weak", offset=1)).code != 0, "readers see what is committed"
        assert (await strong).code == 0
        assert bodies((await client.pull("Weak")).body) == [b"first", b"e"]
        before, on_disk = acknowledged(leader), acknowledged(leader, Durability.MAJORITY_ON_DISK)
        assert (await client.send("Strong")).code == 0
        assert acknowledged(leader) == before
        assert acknowledged(leader, Durability.MAJORITY_ON_DISK) > on_disk


async def test_a_message_says_it_by_a_property(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers() as brokers:
        _, client = await ready(brokers)
        with no_syncs(monkeypatch):
            early = client.send("Strong", properties=f"DURABILITY\x01{IN_MEMORY}\x02")
            strong = client.send("Weak", properties="DURABILITY\x01majority-on-disk\x02")
            assert (await within(early, "an answer before any sync")).code == 0
            assert not strong.done()
        assert (await strong).code == 0
        unknown = await client.send("Strong", properties="DURABILITY\x01somewhere\x02")
        assert unknown.code == 29
        assert "majority-on-disk or majority-in-memory" in unknown.remark
        assert (await client.send("Strong")).ext["queueOffset"] == "2", "it was not stored"


async def test_our_producers_say_it_in_the_request_batches_too(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers() as brokers:
        leader, client = await ready(brokers, **OWN)
        how = {"topic": "Strong", "durability": IN_MEMORY}
        with no_syncs(monkeypatch):
            early = [client.numbered("p", number, **how) for number in (0, 1)]
            early.append(client.send(body=batch_of(range(3)), code=BATCH, **how))
            answers = await within(asyncio.gather(*early), "an answer before any sync")
            assert [answer.code for answer in answers] == [0, 0, 0], answers[0].remark
            repeat = client.numbered("p", 1, **how)
            mixed = client.send(body=batch_of(range(4)), code=BATCH, **how)
            records = leader.parts.appender.records
            await until(lambda: leader.parts.appender.records > records)
            assert not repeat.done(), "a repeat waits for its original's commit (R8)"
            assert not mixed.done()
        assert (await repeat).ext["queueOffset"] == answers[1].ext["queueOffset"]
        assert (await mixed).code == 0


async def test_what_waits_for_its_time_is_on_disk(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers() as brokers:
        _, client = await ready(brokers)
        with no_syncs(monkeypatch):
            delayed = client.send("Weak", properties="DELAY\x011\x02")
            half = client.send("Weak", properties="TRAN_MSG\x01true\x02PGROUP\x01PG\x02", f=4)
            assert (await within(client.send("Weak"), "an answer before any sync")).code == 0
            assert not delayed.done()
            assert not half.done()
        assert [(await delayed).code, (await half).code] == [0, 0]


async def test_a_node_may_be_set_so_and_says_it(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(durability=IN_MEMORY) as brokers:
        leader, client = await ready(brokers)
        with no_syncs(monkeypatch):
            assert (await within(client.send("Strong"), "an answer before any sync")).code == 0
        assert leader.status()["durability"] == IN_MEMORY
        config = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert b"flushDiskType=ASYNC_FLUSH\n" in config.body


async def test_a_level_that_does_not_exist_is_refused(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        refused = await create(client, "+durability=none")
        assert refused.code == 29
        assert "majority-on-disk or majority-in-memory" in refused.remark
