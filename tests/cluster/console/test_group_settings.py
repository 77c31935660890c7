"""Groups made and changed, a topic closed to sends, and a message sent, by the API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from cluster.client import ConsumerConfig
from cluster.errors import Unauthorized
from cluster.protocol.durability import durability_of
from tests.waiting import limit

from .conftest import TOKENS, MakeWorld, World


async def change(world: World, method: str, path: str, schema: str, **body: Any) -> Any:
    status, found = await world.call(method, path, schema=schema, json=body)
    assert status == 200, found
    return found


async def test_a_group_is_made_paused_and_goes_on(make_world: MakeWorld) -> None:
    async with make_world() as world:
        made = await change(world, "POST", "/api/v1/groups", "Changed", name="new", retries=3)
        assert made["command"] == "dledger group create new --retries 3"
        found = await world.get("/api/v1/groups/new", "GroupDetail")
        (settings,) = found["settings"]
        assert (settings["consume"], settings["broadcast"], settings["retries"]) == (True, True, 3)
        await change(world, "POST", "/api/v1/groups", "Changed", name="new", retries=9)
        again = await world.get("/api/v1/groups/new", "GroupDetail")
        assert again["settings"] == [settings]  # one that exists stays as it is

        await world.mq.admin().create_topic("T", 1)
        async with world.mq.producer() as producer:
            await producer.send("T", b"one")
        done = await change(world, "PATCH", "/api/v1/groups/new", "Changed", consume=False)
        assert done["command"] == "dledger group alter new --no-consume"
        config = ConsumerConfig(manual_ack=True)
        async with world.mq.consumer("T", group="new", config=config) as consumer:
            with pytest.raises(Unauthorized, match="dledger group alter new --consume"):
                await consumer.receive(limit(30))
        await change(world, "PATCH", "/api/v1/groups/new", "Changed", consume=True)
        async with world.mq.consumer("T", group="new", config=config) as consumer:
            message = await consumer.receive(limit(30))
            assert message is not None
            assert message.body == b"one"
            consumer.ack(message)
            await change(world, "PATCH", "/api/v1/groups/new", "Changed", consume=False)
            async with world.mq.producer() as producer:
                await producer.send("T", b"two")
            await change(world, "PATCH", "/api/v1/groups/new", "Changed", consume=True)
            message = await consumer.receive(limit(30))
            assert message is not None, "a member that was served before reads on"
            assert message.body == b"two"
        (row,) = (await world.get("/api/v1/groups/new", "GroupDetail"))["settings"]
        assert row == settings  # what was not named stayed


async def test_what_is_wrong_with_a_group_is_refused(make_world: MakeWorld) -> None:
    async with make_world() as world:
        for method, path, body, wanted in (
            ("PATCH", "/api/v1/groups/nobody", {"retries": 1}, (404, "group-not-found")),
            ("PATCH", "/api/v1/groups/nobody", {}, (400, "missing-value")),
            ("POST", "/api/v1/groups", {"name": "a b"}, (400, "invalid-request")),
            ("POST", "/api/v1/groups", {"name": "a", "retries": -1}, (400, "bad-value")),
            ("PATCH", "/api/v1/topics/nothing", {}, (400, "missing-value")),
            ("PATCH", "/api/v1/topics/nothing", {"perm": "all"}, (400, "bad-value")),
            ("POST", "/api/v1/messages", {"topic": "no", "body": "x"}, (404, "topic-not-found")),
            (
                "POST",
                "/api/v1/messages",
                {"topic": "no", "body": "?", "base64": True},
                (400, "bad-value"),
            ),
        ):
            status, said = await world.call(method, path, json=body)
            assert (status, said["error"]["id"]) == wanted, (path, body)
        assert "nobody" not in await world.mq.admin().groups().names()


async def test_a_topic_that_may_only_be_read_refuses_sends(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await change(world, "POST", "/api/v1/topics", "Changed", name="T", queues=1)
        sent = await change(
            world, "POST", "/api/v1/messages", "Resent", topic="T", body="über", key="k", tag="t"
        )
        assert sent["command"] == "dledger produce T -k k -t t"
        raw = base64.b64encode(b"\xff\x00").decode()
        await change(world, "POST", "/api/v1/messages", "Resent", topic="T", body=raw, base64=True)
        found = await world.mq.admin().find_messages("T", "k")
        assert [(m.body, m.tags) for m in found] == [("über".encode(), "t")]
        assert (await world.mq.admin().describe_topic("T")).message_count == 2

        done = await change(world, "PATCH", "/api/v1/topics/T", "Changed", perm="read")
        assert done["command"] == "dledger topic alter T --perm read"
        row = (await world.get("/api/v1/topics/T", "Topic"))["settings"][0]
        assert (row["perm"], row["write_queues"], row["durability"]) == (4, 1, None)

        status, said = await world.call(
            "POST", "/api/v1/messages", json={"topic": "T", "body": "x"}
        )
        assert (status, said["error"]["id"]) == (404, "topic-not-found")
        assert "no queue of T can be written to" in said["error"]["message"]
        await change(world, "PATCH", "/api/v1/topics/T", "Changed", perm="read-write", queues=2)
        await change(world, "POST", "/api/v1/messages", "Resent", topic="T", body="again")


async def test_when_sends_of_a_topic_are_acknowledged(make_world: MakeWorld) -> None:
    memory, disk = "majority-in-memory", "majority-on-disk"
    async with make_world() as world:
        made = {"name": "T", "queues": 2, "durability": memory}
        done = await change(world, "POST", "/api/v1/topics", "Changed", **made)
        assert done["command"] == f"dledger topic create T -q 2 --durability {memory}"
        assert (await world.mq.admin().topic_settings("T")).durability is durability_of(memory)
        done = await change(world, "PATCH", "/api/v1/topics/T", "Changed", durability=disk)
        assert done["command"] == f"dledger topic alter T --durability {disk}"
        row = (await world.get("/api/v1/topics/T", "Topic"))["settings"][0]
        assert (row["durability"], row["write_queues"], row["perm"]) == (disk, 2, 6)
        status, said = await world.call("PATCH", "/api/v1/topics/T", json={"durability": "none"})
        assert (status, said["error"]["id"]) == (400, "bad-value")


async def test_an_operator_sends_and_a_viewer_does_not(make_world: MakeWorld) -> None:
    async with make_world(tokens=True) as world:
        await world.mq.admin().create_topic("T", 1)
        for role, wanted in (("viewer", 403), ("operator", 200)):
            status, _ = await world.call(
                "POST",
                "/api/v1/messages",
                json={"topic": "T", "body": "x"},
                headers={"Authorization": f"Bearer {TOKENS[role]}"},
            )
            assert status == wanted, role
