"""Topics as administrators see them (17, 21, 202, 215, 351) and messages by address and key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.topics import decode_topic_stats

from .conftest import MakeBrokers
from .harness import bodies, until

TOPIC: dict[str, Any] = {
    "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": 3, "writeQueueNums": 2,
    "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    "attributes": "+message.type=FIFO",
}  # fmt: skip


async def test_a_topic_is_created_everywhere_changed_and_deleted(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        assert (await client.ask(Code.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
        found = await client.ask(Code.GET_TOPIC_CONFIG, {"topic": "orders"})
        row = json.loads(found.body)
        assert (row["readQueueNums"], row["writeQueueNums"]) == (3, 2)
        assert row["attributes"] == {"message.type": "FIFO"}
        for node in brokers.running():
            topics = node.parts.state.topics
            await until(lambda topics=topics: topics.get("orders") is not None)  # type: ignore[misc]
        changed = {**TOPIC, "perm": 4, "attributes": "-message.type"}
        assert (await client.ask(Code.UPDATE_AND_CREATE_TOPIC, changed)).code == 0
        assert (await client.send(topic="orders")).code == 16, "not writable any more"
        table = json.loads((await client.ask(Code.GET_ALL_TOPIC_CONFIG)).body)
        assert table["topicConfigTable"]["orders"]["attributes"] == {}
        assert (await client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})).code == 0
        assert (await client.ask(Code.GET_TOPIC_CONFIG, {"topic": "orders"})).code == 17


@pytest.mark.parametrize(
    ("topic", "read", "deleted"), [("%RETRY%g+T", 17, 0), ("%RETRY%g", 17, 0), ("g+T", 29, 29)]
)
async def test_a_retry_topic_that_is_missing_is_not_found(
    make_brokers: MakeBrokers, topic: str, read: int, deleted: int
) -> None:
    """Whatever the broker itself names one is a legal name to ask about."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.ask(Code.GET_TOPIC_CONFIG, {"topic": topic})).code == read
        assert (await client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})).code == deleted


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "a b"}, 29),
        ({"readQueueNums": 0, "writeQueueNums": 0}, 29),
        ({"readQueueNums": 5000}, 29),
        ({"perm": 8}, 29),
        ({"perm": "x"}, 29),
        ({"attributes": "+cleanup.policy=COMPACTION"}, 29),
        ({"attributes": "+queue.type=BatchCQ"}, 29),
        ({"topic": "rmq_sys_dledger_topics"}, 16),
    ],
)
async def test_impossible_topics(
    make_brokers: MakeBrokers, change: dict[str, Any], code: int
) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        answer = await client.ask(Code.UPDATE_AND_CREATE_TOPIC, {**TOPIC, **change})
        assert answer.code == code, answer.remark


async def test_statistics_of_a_topic(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for _ in range(3):
            assert (await client.send(queue=1)).code == 0
        answer = await client.ask(Code.GET_TOPIC_STATS_INFO, {"topic": "T"})
        stats = decode_topic_stats(answer.body)
        assert len(stats) == 4
        row = stats[MessageQueue("T", "broker-a", 1)]
        assert (row.min_offset, row.max_offset) == (0, 3)
        assert row.last_update_timestamp > 1_700_000_000_000


async def test_messages_by_address(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        sent = await client.send(body=b"by address")
        position = int(sent.ext["msgId"][16:], 16)
        found = await client.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": position})
        assert bodies(found.body) == [b"by address"]
        for wrong in (position + 1, position - 48, 10**12, 0):
            missing = await client.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": wrong})
            assert missing.code == 1, missing.remark


async def test_messages_by_key(make_brokers: MakeBrokers) -> None:
    """The index compares hashes only (`Aa` and `BB` collide); the answer has the real key."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for key in ("Aa", "BB", "Aa x"):
            assert (await client.send(body=key.encode(), properties=f"KEYS\x01{key}\x02")).code == 0
        unique = await client.send(body=b"u", properties="UNIQ_KEY\x01U1\x02")
        assert unique.code == 0
        ext = {"topic": "T", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 62}
        found = await client.ask(Code.QUERY_MESSAGE, {**ext, "key": "Aa"})
        assert bodies(found.body) == [b"Aa", b"Aa x"]
        assert "indexLastUpdatePhyoffset" in found.ext
        by_unique = await client.ask(Code.QUERY_MESSAGE, {**ext, "key": "U1"})
        assert bodies(by_unique.body) == [b"u"]
        assert (await client.ask(Code.QUERY_MESSAGE, {**ext, "key": "none"})).code == 22


async def test_without_an_index_keys_find_nothing(make_brokers: MakeBrokers) -> None:
    async with make_brokers(index_enabled=False) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(properties="KEYS\x01k\x02")).code == 0
        ext = {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1 << 62}
        assert (await client.ask(Code.QUERY_MESSAGE, ext)).code == 22
