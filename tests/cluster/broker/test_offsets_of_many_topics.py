"""Offsets of a group in many topics: more than a record holds, and taken over by another group."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from cluster.core.internal_topics import OffsetsCommitted, StateChange, TopicsChanged
from cluster.core.topics import TopicConfig
from cluster.protocol.codes import RequestCode as Code

from .conftest import MakeBrokers
from .harness import Brokers


async def logged(brokers: Brokers, *changes: StateChange) -> None:
    writer = (await brokers.leader()).parts.admin_ports.writer
    for change in changes:
        ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        writer.write(change, ended.set_result)
        assert await ended is None


async def test_a_second_of_commits_that_no_record_can_hold_is_several_records(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1, body_size_max=2000) as brokers:
        names = [f"a-topic-with-a-rather-long-name-{number}" for number in range(20)]
        topics = [TopicsChanged(create=(TopicConfig(name, 8, 8),)) for name in names]
        await logged(brokers, *topics)
        client = await brokers.client(await brokers.leader())
        for name in names:
            for queue in range(8):
                place = {"consumerGroup": "CG", "topic": name, "queueId": queue}
                client.ask(Code.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": 3})
        ext = {"consumerGroup": "CG", "topic": names[-1], "queueId": 7}
        found = await client.ask(Code.QUERY_CONSUMER_OFFSET, ext)
        assert (found.code, found.ext["offset"]) == (0, "3")
        stored = brokers.running()[0].parts.state.offsets.of_group("CG")
        assert stored == {name: dict.fromkeys(range(8), 3) for name in names}


async def test_offsets_of_many_topics_are_taken_over_twice(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        names = [f"T{number}" for number in range(400)]
        topics = TopicsChanged(create=tuple(TopicConfig(name, 1, 1) for name in names))
        stored = {name: {0: 5} for name in names}
        await logged(brokers, topics, OffsetsCommitted("CG", stored))
        admin = await brokers.client(await brokers.leader())
        ext = {"srcGroup": "CG", "destGroup": "OTHER", "topic": ""}
        for _ in range(2):
            answer = await admin.ask(Code.CLONE_GROUP_OFFSET, ext)
            assert (answer.code, answer.remark) == (0, None)
        assert brokers.running()[0].parts.state.offsets.of_group("OTHER") == stored


async def test_a_lock_of_more_queues_than_a_record_holds_leaves_them_free(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1, body_size_max=2000) as brokers:
        await logged(brokers, TopicsChanged(create=(TopicConfig("T", 200, 200),)))
        client = await brokers.client(await brokers.leader())

        async def lock(client_id: str, count: int) -> tuple[int, int]:
            rows = [{"topic": "T", "brokerName": "broker-a", "queueId": i} for i in range(count)]
            value = {"consumerGroup": "CG", "clientId": client_id, "mqSet": rows}
            answer = await client.ask(Code.LOCK_BATCH_MQ, body=json.dumps(value).encode())
            return answer.code, answer.body.count(b"queueId")

        assert await lock("many@1", 200) == (29, 0)
        assert await lock("one@1", 1) == (0, 1)
