"""What the API says of a cluster is what its clients have done there."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from cluster.client import ConsumerConfig
from cluster.console.api.paging import CURSOR_LENGTH_MAX
from tests.waiting import eventually, limit

from .conftest import MakeWorld, World

BODIES = [b"plain", b'{"amount": 17, "to": ["a", "b"]}', b"\x00\xff\xfe", "Käse".encode(), b""]


async def send(world: World, topic: str, count: int, *, queues: int = 2) -> None:
    await world.mq.admin().create_topic(topic, queues)
    async with world.mq.producer() as producer:
        for number in range(count):
            body = BODIES[number % len(BODIES)]
            await producer.send(topic, body, key=f"k{number}", tags="new")


async def every_page(world: World, path: str, rows: str, schema: str, **params: Any) -> list[Any]:
    found: list[Any] = []
    while True:  # until a page has no cursor
        page = await world.get(path, schema, **params)
        found += page[rows]
        if page["cursor"] is None:
            return found
        params["cursor"] = page["cursor"]


async def test_the_overview_shows_replicas_and_their_pointers(make_world: MakeWorld) -> None:
    async with make_world(nodes=3) as world:
        await send(world, "T", 3)
        found = await world.get("/api/v1/overview", "Overview")
        (group,) = found["groups"]
        assert group["members"] == 3
        assert group["may_fail_now"] == 1
        assert sorted(row["role"] for row in found["replicas"]) == [
            *["follower", "follower", "leader"]
        ]
        (leader,) = [row for row in found["replicas"] if row["role"] == "leader"]
        assert leader["node"] == group["leader"]
        pointers = [f"{name}_index" for name in ("dispatched", "applied", "committed", "last")]
        assert [leader[name] for name in pointers] == sorted(leader[name] for name in pointers)
        assert leader["dispatched_index"] > 0
        assert found["alerts"] == []
        follower = await world.brokers.follower()
        number = world.brokers.nodes.index(follower)
        if number == 0:  # its console would go with it
            number = next(i for i, n in enumerate(world.brokers.nodes) if i and n is not leader)
        gone = world.brokers.nodes[number]
        assert gone is not None
        await world.brokers.stop_node(number)

        async def told() -> set[str]:
            alerts = (await world.get("/api/v1/overview", "Overview"))["alerts"]
            ids = {row["id"] for row in alerts if row["subject"] == gone.config.node_id}
            return ids & {"node-down"}

        await eventually(told, "the alert of the node that is down")


async def test_topics_come_in_pages_by_kind(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await send(world, "orders", 5)
        for number in range(7):
            await world.mq.admin().create_topic(f"other-{number}", 1)
        rows = await every_page(world, "/api/v1/topics", "topics", "TopicPage", limit=3)
        assert [row["name"] for row in rows] == ["orders", *(f"other-{n}" for n in range(7))]
        (orders,) = [row for row in rows if row["name"] == "orders"]
        assert (orders["messages"], orders["queues"], orders["kind"]) == (5, 2, "user")
        page = await world.get("/api/v1/topics", "TopicPage", filter="ORD")
        assert [row["name"] for row in page["topics"]] == ["orders"]
        system = await world.get("/api/v1/topics", "TopicPage", kind="system")
        assert "TBW102" in {row["name"] for row in system["topics"]}
        found = await world.get("/api/v1/topics/orders", "Topic")
        assert found["messages"] == 5
        assert sum(row["messages"] for row in found["queues"]) == 5
        assert found["settings"][0]["write_queues"] == 2
        status, said = await world.call("GET", "/api/v1/topics/nothing")
        assert (status, said["error"]["id"]) == (404, "topic-not-found")
        assert said["error"]["try"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_topics_messages_come_in_order_over_pages(
    make_world: MakeWorld, order: str
) -> None:
    async with make_world() as world:
        await send(world, "T", 23, queues=3)
        rows = await every_page(
            world, "/api/v1/messages", "messages", "MessagePage", topic="T", limit=5, order=order
        )
        keys = [row["keys"][0] for row in rows]
        assert len(keys) == len(set(keys)) == 23
        stored = [row["stored_ms"] for row in rows]
        assert stored == sorted(stored, reverse=order == "newest")


async def test_large_messages_do_not_hide_the_newest(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await world.mq.admin().create_topic("T", 1)
        async with world.mq.producer() as producer:
            for number in range(12):
                await producer.send("T", b"%d " % number + b"x" * 100_000)
        rows = await every_page(
            world, "/api/v1/messages", "messages", "MessagePage", topic="T", limit=10
        )
        assert [row["offset"] for row in rows] == list(range(11, -1, -1))
        assert all(row["body"]["is_cut"] for row in rows)


async def test_messages_are_found_by_time_offset_key_and_id(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await send(world, "T", 5, queues=1)
        page = await world.get("/api/v1/messages", "MessagePage", topic="T", order="oldest")
        rows = page["messages"]
        middle = rows[2]["stored_ms"]
        found = await world.get("/api/v1/messages", "MessagePage", topic="T", from_ms=middle)
        assert {row["offset"] for row in found["messages"]} >= {2, 3, 4}
        found = await world.get("/api/v1/messages", "MessagePage", topic="T", to_ms=middle)
        assert {row["offset"] for row in found["messages"]} >= {0, 1, 2}
        far = int(time.time() * 1000) + 3_600_000
        assert not (await world.get("/api/v1/messages", topic="T", from_ms=far))["messages"]
        found = await world.get(
            "/api/v1/messages", "MessagePage", topic="T", order="oldest", offset=3
        )
        assert [row["offset"] for row in found["messages"]] == [3, 4]
        for key in ("k3", rows[3]["message_id"]):
            found = await world.get("/api/v1/messages/search", "MessagePage", topic="T", key=key)
            assert [row["offset"] for row in found["messages"]] == [3]
        one = await world.get("/api/v1/messages/one", "Message", topic="T", queue=0, offset=3)
        assert one["message_id"] == rows[3]["message_id"]
        status, said = await world.call(
            "GET", "/api/v1/messages/one", params={"topic": "T", "queue": 0, "offset": 99}
        )
        assert (status, said["error"]["id"]) == (404, "not-found")


async def test_bodies_are_text_json_or_hex(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await send(world, "T", len(BODIES), queues=1)
        page = await world.get("/api/v1/messages", "MessagePage", topic="T", order="oldest")
        bodies = [row["body"] for row in page["messages"]]
        assert [body["format"] for body in bodies] == ["text", "json", "hex", "text", "text"]
        assert bodies[0]["value"] == "plain"
        assert '"amount": 17' in bodies[1]["value"]
        assert bodies[2]["value"] == "00 ff fe"
        assert bodies[3]["value"] == "Käse"
        page = await world.get("/api/v1/messages", topic="T", order="oldest", body="hex")
        assert page["messages"][0]["body"]["value"] == b"plain".hex(" ")


async def test_a_group_shows_lag_members_and_assignment(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await send(world, "T", 6, queues=2)
        config = ConsumerConfig(manual_ack=True)
        async with world.mq.consumer("T", group="readers", config=config) as consumer:
            for message in await consumer.receive_many(2, limit(30)):
                consumer.ack(message)
            await consumer.commit()
            found = await world.get("/api/v1/groups/readers", "GroupDetail")
            (member,) = found["members"]
            rows = [row for row in found["queues"] if row["topic"] == "T"]
            assert found["lag"] == sum(row["lag"] for row in found["queues"]) > 0
            assert found["lag_seconds"] > 0
            assert {row["assigned_to"] for row in rows} == {member["client_id"]}
            page = await world.get("/api/v1/consumers", "ConsumerPage", filter="readers")
            assert [row["group"] for row in page["groups"]] == ["readers"]
        rows = await every_page(world, "/api/v1/groups", "groups", "GroupPage", limit=2)
        assert "readers" in {row["name"] for row in rows}
        status, said = await world.call("GET", "/api/v1/groups/nobody")
        assert (status, said["error"]["id"]) == (404, "group-not-found")


async def test_producers_and_dead_letters_are_listed(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await send(world, "T", 1, queues=1)
        page = await world.get("/api/v1/dead-letters", "DeadLetterPage")
        assert page["groups"] == []
        config = ConsumerConfig(manual_ack=True)
        async with world.mq.consumer("T", group="readers", config=config) as consumer:
            message = await consumer.receive(limit(30))
            assert message is not None
            await consumer.nack(message, delay_level=-1)

            async def dead() -> list[Any]:
                page = await world.get("/api/v1/dead-letters/readers", "MessagePage")
                return list(page["messages"])

            (letter,) = await eventually(dead, "the dead letter")
        assert letter["of_topic"] == "T"
        assert letter["keys"] == ["k0"]
        page = await world.get("/api/v1/dead-letters", "DeadLetterPage")
        assert [(row["group"], row["messages"]) for row in page["groups"]] == [("readers", 1)]
        assert not (await world.get("/api/v1/dead-letters/nobody", "MessagePage"))["messages"]
        await world.get("/api/v1/producers", "ProducerPage")


async def test_a_tail_shows_what_comes(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await send(world, "T", 2, queues=1)
        url = f"{world.base}/api/v1/messages/tail"
        async with world.http.get(url, params={"topic": "T"}) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            assert await answer.content.readline() == b": open\n"
            async with world.mq.producer() as producer:
                await producer.send("T", b"came later")
            async with asyncio.timeout(limit(30)):
                while b"came later" not in (line := await answer.content.readline()):
                    assert line, "the stream ended"
        status, said = await world.call("GET", "/api/v1/messages/tail", params={"topic": "none"})
        assert (status, said["error"]["id"]) == (404, "topic-not-found")


async def test_the_longest_cursor_is_read(make_world: MakeWorld) -> None:
    """That of a topic with some hundred queues was longer than a line that HTTP took."""
    async with make_world() as world:
        await world.mq.admin().create_topic("T", 1)
        for length, wanted in (
            (CURSOR_LENGTH_MAX, "bad-cursor"),
            (CURSOR_LENGTH_MAX + 1, "bad-value"),
        ):
            status, said = await world.call(
                "GET", "/api/v1/messages", params={"topic": "T", "cursor": "a" * length}
            )
            assert (status, said["error"]["id"]) == (400, wanted)
