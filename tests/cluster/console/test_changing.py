"""Changes by the API: done for the role that may, shown as a command, and logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.client import ConsumerConfig
from cluster.client.admin.group_admin import retry_topics
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.offset_lookup import LAST
from cluster.console.api.changes import place_of
from cluster.console.api.failures import ApiError
from cluster.core.internal_topics import TopicsChanged
from cluster.core.topics import TopicConfig
from cluster.errors import Unauthorized
from tests.waiting import eventually, limit

from .conftest import TOKENS, MakeWorld, World


async def change(world: World, method: str, path: str, schema: str, **body: Any) -> Any:
    status, found = await world.call(method, path, schema=schema, json=body)
    assert status == 200, found
    return found


async def test_a_topic_is_made_altered_and_deleted(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_world() as world:
        with caplog.at_level(logging.INFO, "cluster.console.http"):
            found = await change(world, "POST", "/api/v1/topics", "Changed", name="new", queues=3)
        assert found["command"] == "dledger topic create new -q 3"
        assert [r for r in caplog.records if "audit: POST /api/v1/topics by admin" in r.message]
        assert len((await world.get("/api/v1/topics/new", "Topic"))["queues"]) == 3
        await change(world, "PATCH", "/api/v1/topics/new", "Changed", queues=5)
        assert len((await world.get("/api/v1/topics/new", "Topic"))["queues"]) == 5
        await change(world, "DELETE", "/api/v1/topics/new", "Changed")
        status, said = await world.call("GET", "/api/v1/topics/new")
        assert (status, said["error"]["id"]) == (404, "topic-not-found")
        status, said = await world.call("DELETE", "/api/v1/topics/TBW102", json={})
        assert (status, said["error"]["id"]) == (403, "system-topic")
        for body in ({"name": "a b"}, {"name": "x", "queues": 0}, {"queues": 1}, {"nam": "x"}):
            status, said = await world.call("POST", "/api/v1/topics", json=body)
            assert status == 400, said


@contextlib.asynccontextmanager
async def reading(world: World, *, sent: int, read: int) -> AsyncIterator[None]:
    """A member of the group `readers` that has read some messages of the new topic T."""
    await world.mq.admin().create_topic("T", 1)
    async with world.mq.producer() as producer:
        for number in range(sent):
            await producer.send("T", b"%d" % number)
    config = ConsumerConfig(manual_ack=True)
    async with world.mq.consumer("T", group="readers", config=config) as consumer:
        for _ in range(read):
            message = await consumer.receive(limit(30))
            assert message is not None
            consumer.ack(message)
        await consumer.commit()
        yield


async def test_a_group_is_moved_after_a_dry_run(make_world: MakeWorld) -> None:
    async with make_world() as world:
        async with reading(world, sent=5, read=3):
            pass
        path = "/api/v1/groups/readers/reset"
        dry = await change(world, "POST", path, "Reset", topic="T", to="last")
        assert dry["dry_run"]
        assert [(row["next"], row["then"]) for row in dry["queues"]] == [(3, 5)]
        found = await world.get("/api/v1/groups/readers", "GroupDetail")
        assert [row["next"] for row in found["queues"] if row["topic"] == "T"] == [3]
        done = await change(world, "POST", path, "Reset", topic="T", to="first", dry_run=False)
        assert done["command"] == "dledger group reset readers --topic T --to first"
        found = await world.get("/api/v1/groups/readers", "GroupDetail")
        assert [row["next"] for row in found["queues"] if row["topic"] == "T"] == [0]


async def test_a_group_is_cloned_after_a_dry_run_and_deleted(make_world: MakeWorld) -> None:
    async with make_world() as world:
        async with reading(world, sent=3, read=1):
            status, said = await world.call("DELETE", "/api/v1/groups/readers", json={})
            assert (status, said["error"]["id"]) == (409, "illegal-operation")
        path = "/api/v1/groups/readers/clone"
        dry = await change(world, "POST", path, "Reset", target="others")
        assert dry["dry_run"]
        assert [(row["topic"], row["next"], row["then"]) for row in dry["queues"]] == [
            ("T", None, 1)
        ]
        assert not await world.mq.admin().groups().lag("others")
        done = await change(world, "POST", path, "Reset", target="others", topic="T", dry_run=False)
        assert done["command"] == "dledger group clone readers others --topic T"
        assert [row.next for row in await world.mq.admin().groups().lag("others")] == [1]
        gone = await change(world, "DELETE", "/api/v1/groups/others", "Changed")
        assert gone["command"] == "dledger group delete others"
        assert "others" not in await world.mq.admin().groups().names()
        for method, address, body in (
            ("DELETE", "/api/v1/groups/others", {}),
            ("POST", "/api/v1/groups/others/clone", {"target": "more"}),
        ):
            status, said = await world.call(method, address, json=body)
            assert (status, said["error"]["id"]) == (404, "group-not-found")


async def test_a_deleted_group_takes_its_retry_topics_with_it(make_world: MakeWorld) -> None:
    """Those of topics that it popped, too; not those of a group whose name begins like its own."""
    async with make_world() as world:
        await world.mq.admin().create_topic("T", 1)
        for group in ("readers", "readers_2"):
            async with world.mq.consumer("T", group=group) as consumer:
                await consumer.commit()
        popped = ("%RETRY%readers+T", "%RETRY%readers+gone", "%RETRY%readers_T")
        others = ("%RETRY%readers_2+T", "%RETRY%readers_2_T", "%RETRY%readers_2")
        logged: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        made = tuple(TopicConfig(name, 1, 1) for name in (*popped, *others[:2]))
        (await world.brokers.leader()).parts.writer.write(TopicsChanged(made), logged.set_result)
        assert await logged is None

        async def names() -> set[str]:
            return set(await world.mq.admin().list_topics())

        async def all_there() -> bool:
            return {*popped, *others, "%RETRY%readers"} <= await names()

        await eventually(all_there, "the name server knows all topics")
        await change(world, "DELETE", "/api/v1/groups/readers", "Changed")

        async def gone() -> bool:
            return not {*popped, "%RETRY%readers"} & await names()

        await eventually(gone, "its retry topics are gone")
        assert set(others) <= await names()


@pytest.mark.parametrize(
    ("groups", "topics", "found"),
    [
        (["a"], ["b_c", "%RETRY%a_b_c"], ["%RETRY%a_b_c"]),
        (["a"], ["c", "%RETRY%a_b_c"], []),
        (["a", "a_b"], ["b_c", "c", "%RETRY%a_b_c"], []),
        (["a", "a_b"], ["b_c", "%RETRY%a_b_c"], ["%RETRY%a_b_c"]),
        (["a", "a_b"], ["b", "%RETRY%a_b", "%RETRY%a"], ["%RETRY%a"]),
        (["a"], ["%RETRY%a+gone", "%RETRY%ab+c", "%DLQ%a", "a"], ["%RETRY%a+gone"]),
        ([], [], []),
    ],
)
def test_a_retry_topic_that_another_group_may_have_stays(
    groups: list[str], topics: list[str], found: list[str]
) -> None:
    assert retry_topics("a", topics, groups) == found


async def test_no_request_ends_transactions_that_wait_by_an_offset(make_world: MakeWorld) -> None:
    """An offset of the system's check group in the half topic gives up all halves before it."""
    half, checks = "RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS"
    async with make_world() as world:
        groups = world.mq.admin().groups()
        with pytest.raises(Unauthorized, match="name another group"):
            await groups.reset(checks, half, LAST)
        await groups.reset("TOOLS_CONSUMER", half, LAST)
        body = {"target": checks, "topic": half, "dry_run": False}
        status, said = await world.call("POST", "/api/v1/groups/TOOLS_CONSUMER/clone", json=body)
        assert (status, said["error"]["id"]) == (403, "unauthorized")
        commit = {"consumerGroup": checks, "topic": half, "queueId": "0", "commitOffset": "1"}
        with pytest.raises(Unauthorized):
            await ask_leader(world.mq.instance, "broker-a", half, 15, commit)
        assert not await groups.lag(checks)


async def test_a_write_must_come_as_json_from_the_own_page(make_world: MakeWorld) -> None:
    async with make_world(tokens=True) as world:
        shown = {"Authorization": f"Bearer {TOKENS['admin']}"}
        for headers, data, wanted in (
            ({"Content-Type": "text/plain"}, b'{"name": "x"}', 415),
            ({"Content-Type": "application/x-www-form-urlencoded"}, b"name=x", 415),
            ({"Content-Type": "application/json"}, b"{", 400),
            ({"Content-Type": "application/json"}, b"[]", 400),
            ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, b"{}", 403),
        ):
            status, said = await world.call(
                "POST", "/api/v1/topics", headers={**shown, **headers}, data=data
            )
            assert status == wanted, said
        assert await world.mq.admin().list_topics()
        assert "x" not in await world.mq.admin().list_topics()


@pytest.mark.parametrize("text", ["", "noon", "1969-01-01T00:00:00+00:00", "0001-01-01", "12"])
def test_a_place_is_first_last_or_a_time(text: str) -> None:
    assert place_of("2026-01-31T12:00:00+00:00") == 1769860800000
    with pytest.raises(ApiError, match="give first, last"):
        place_of(text)
