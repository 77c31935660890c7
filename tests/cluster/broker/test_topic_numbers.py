"""Topics with fewer queues than before: nothing is hidden, and only what was told is changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cluster.client import Admin, Client, TopicSettings
from cluster.errors import TopicNotFound
from cluster.protocol.codes import RequestCode as Code

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until
from .test_our_client import serving
from .test_retention import FILE_SIZE, KEEP_NOTHING, RAFT, settle, trim, write


def fields_of(read: int, write: int, **more: Any) -> dict[str, Any]:
    """Of request 17, as mqadmin fills them in."""
    return {
        "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": read,
        "writeQueueNums": write, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        "order": "false", **more,
    }  # fmt: skip


async def put(client: RawClient, read: int, write: int, **more: Any) -> int:
    ext = fields_of(read, write, **more)
    return (await client.ask(Code.UPDATE_AND_CREATE_TOPIC, ext)).code


async def put_list(client: RawClient, read: int, write: int) -> int:
    row = {"topicName": "orders", "readQueueNums": read, "writeQueueNums": write, "perm": 6}
    body = json.dumps({"topicConfigList": [row]}).encode()
    return (await client.ask(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code


def numbers(brokers: Brokers) -> set[tuple[int, int]]:
    found = set()
    for node in brokers.running():
        row = node.parts.state.topics.get("orders")
        found.add((row.read_queues, row.write_queues) if row is not None else (0, 0))
    return found


@pytest.mark.parametrize("ask", [put, put_list])
async def test_mqadmin_shrinks_at_once_and_hides_no_message(
    make_brokers: MakeBrokers, ask: Callable[..., Any]
) -> None:
    """`mqadmin updateTopic -r 4 -w 4` on eight queues said success and changed nothing."""
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        assert await ask(client, 8, 8) == 0
        assert (await client.send("orders", queue=6)).code == 0
        assert await ask(client, 4, 4) == 0
        await until(lambda: numbers(brokers) == {(7, 4)})
        assert (await client.pull("orders", 6)).code == 0
        assert await ask(client, 12, 12) == 0
        await until(lambda: numbers(brokers) == {(12, 12)})
        assert await ask(client, 12, 3) == 0
        assert await ask(client, 7, 3) == 0
        await until(lambda: numbers(brokers) == {(7, 3)})


async def test_a_library_that_creates_what_is_there_changes_nothing(
    make_brokers: MakeBrokers,
) -> None:
    """Go's admin names `defaultTopic`, Java's createTopic the key that its caller gave."""
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        assert await put(client, 9, 9) == 0
        for number in (4, 8):
            assert await put(client, number, number, defaultTopic="defaultTopic") == 0
            assert numbers(brokers) == {(9, 9)}
        assert await put(client, 10, 10, defaultTopic="defaultTopic") == 0
        assert numbers(brokers) == {(10, 10)}


async def test_numbers_that_mqadmin_was_not_told_shrink_nothing(make_brokers: MakeBrokers) -> None:
    """`mqadmin updateTopic -p 4` sends 8 and 8, too: an answer with a sentence, no change."""
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        assert await put(client, 16, 16) == 0
        ext = fields_of(8, 8, perm=4)
        answer = await client.ask(Code.UPDATE_AND_CREATE_TOPIC, ext)
        assert answer.code == 29
        assert "dledger topic alter orders -q 8" in (answer.remark or "")
        assert numbers(brokers) == {(16, 16)}
        assert (await client.send("orders")).code == 0, "still writable"
        assert await put(client, 16, 16, perm=4) == 0
        assert (await client.send("orders")).code == 16


async def test_fewer_queues_in_two_steps_hide_no_message(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        assert await put(client, 8, 8) == 0
        sent = [await client.send("orders", queue=number % 8) for number in range(80)]
        assert {answer.code for answer in sent} == {0}
        assert await put(client, 8, 4) == 0
        assert await put(client, 4, 4) == 0
        await until(lambda: numbers(brokers) == {(8, 4)})
        visible = 0
        for queue in range(8):
            pulled = await client.ask(Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": queue})
            visible += int(pulled.ext["offset"])
            assert (await client.pull("orders", queue)).code == 0
        assert visible == 80


async def test_queues_are_let_go_once_retention_has_emptied_them(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        assert await put(client, 8, 8) == 0
        assert (await client.send("orders", queue=7)).code == 0
        await write(client, 200)
        await settle([node])
        assert await put(client, 4, 4, intent="alter") == 0
        assert numbers(brokers) == {(8, 4)}
        await trim(brokers, FILE_SIZE)
        assert await put(client, 4, 4, intent="alter") == 0
        assert numbers(brokers) == {(4, 4)}


async def made(mq: Client, topic: str, queues: int) -> Mapping[str, TopicSettings]:
    return await Admin(mq).create_topic(topic, queues)


async def test_our_client_creates_once_and_alters_when_told(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with serving(make_brokers, new_address()) as (_, mq):
        both = await asyncio.gather(made(mq, "orders", 8), made(mq, "orders", 4))
        assert both[0] == both[1]
        number = both[0]["broker-a"].write_queues
        assert (await made(mq, "orders", number + 1)) == both[0]
        altered = await Admin(mq).alter_topic("orders", 9)
        assert altered == {"broker-a": TopicSettings(9, 9)}
        async with mq.producer() as producer:
            for _ in range(9):
                await producer.send("orders", b"x")
        altered = await Admin(mq).alter_topic("orders", 2)
        assert altered == {"broker-a": TopicSettings(9, 2)}
        assert (await Admin(mq).describe_topic("orders")).message_count == 9
        with pytest.raises(TopicNotFound):
            await Admin(mq).alter_topic("nowhere", 2)
