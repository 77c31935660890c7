"""Messages followed and sent again, by the API and by the commands that it names."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.client import Consumer, ConsumerConfig, ReceivedMessage
from cluster.client.admin import audit
from cluster.client.admin.resending import RESENT_OF
from cluster.client.admin.stored_messages import with_key
from cluster.client.producer.transaction import Decision
from cluster.client.routing.leader_requests import ask_leader
from cluster.console.api import dead_letters, resending
from cluster.errors import ServiceNotAvailable, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import SendBackRequest, UpdateConsumerOffsetRequest, encode
from tests.waiting import eventually, limit

from .conftest import MakeWorld, World

MANUAL = ConsumerConfig(manual_ack=True)


async def post(world: World, path: str, schema: str, **body: Any) -> Any:
    status, found = await world.call("POST", path, schema=schema, json=body)
    assert status == 200, found
    return found


async def run(world: World, line: str) -> Any:
    """What a command prints as JSON."""
    words = [*shlex.split(line)[1:], "-a", world.address, "-o", "json"]
    found = await asyncio.to_thread(CliRunner().invoke, dledger, words)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


async def steps(world: World, topic: str, key: str) -> list[tuple[str, str | None]]:
    found = await world.get("/api/v1/messages/trace", "Trace", topic=topic, key=key)
    said = await run(world, found["command"])
    rows = [(row["kind"], row["group"]) for row in found["steps"]]
    assert [(row["kind"], row["group"]) for row in said] == rows
    return rows


async def received(consumer: Consumer) -> ReceivedMessage:
    found = await consumer.receive(limit(30))
    assert found is not None
    return found


async def one_dead(world: World) -> ReceivedMessage:
    """A message of T, read by two groups, of which `readers` gave it up at once.

    The requests are those that consumers send; a consumer of its own would take a second.
    """
    instance = world.mq.instance
    await world.mq.admin().create_topic("T", 1)
    async with world.mq.producer() as producer:
        await producer.send("T", b"\x00 body", key="k", tags="new", properties={"own": "yes"})
    (message,) = await with_key(instance, "T", "k")
    for group in ("others", "readers"):
        offset = encode(UpdateConsumerOffsetRequest(group, "T", 0, 1))
        await ask_leader(instance, "broker-a", "T", RequestCode.UPDATE_CONSUMER_OFFSET, offset)
    back = encode(SendBackRequest(message.position, "readers", -1))
    await ask_leader(instance, "broker-a", "T", RequestCode.CONSUMER_SEND_MSG_BACK, back)

    async def dead() -> list[Any]:  # its topic is new to the name server
        page = await world.get("/api/v1/dead-letters/readers", "MessagePage")
        return list(page["messages"])

    await eventually(dead, "the dead letter")
    return message


async def test_a_trace_follows_a_message_to_its_end(make_world: MakeWorld) -> None:
    async with make_world() as world:
        message = await one_dead(world)
        way = await steps(world, "T", "k")
        assert way[0] == ("stored", None)
        assert way[1:3] == [("read", "others"), ("read", "readers")]
        assert way[-1] == ("dead", "readers")
        assert await steps(world, "T", message.message_id) == way
        for key, wanted in (("nothing", 404), ("", 400)):
            status, _ = await world.call(
                "GET", "/api/v1/messages/trace", params={"topic": "T", "key": key}
            )
            assert status == wanted


async def test_a_trace_shows_what_waits_and_why(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await world.mq.admin().create_topic("T", 1)
        async with world.mq.producer() as producer:
            await producer.send_delayed("T", b"later", delay=3600, key="timer")
            await producer.send_delayed("T", b"later", delay_level=18, key="level")
            for _ in range(2):
                await producer.send("T", b"twice", key="twice")
        assert await steps(world, "T", "timer") == [("delayed", None)]
        assert await steps(world, "T", "level") == [("delayed", None)]
        status, said = await world.call(
            "GET", "/api/v1/messages/trace", params={"topic": "T", "key": "twice"}
        )
        assert (status, said["error"]["id"]) == (400, "invalid-request"), said
        async with world.mq.transaction_producer("PG", lambda _: Decision.COMMIT) as producer:
            async with await producer.begin("T", b"both", key="half"):
                assert await steps(world, "T", "half") == [("half", "PG")]
            found = await steps(world, "T", "half")
        assert found == [("half", "PG"), ("stored", None)]


async def test_messages_that_wait_are_listed_in_pages(make_world: MakeWorld) -> None:
    async with make_world() as world:
        for path in ("scheduled", "transactions"):
            page = await world.get(f"/api/v1/{path}", "WaitingPage")
            assert (page["total"], page["messages"], page["next_due_ms"]) == (0, [], None)
        await world.mq.admin().create_topic("T", 1)
        async with world.mq.producer() as producer:
            for number in range(5):
                await producer.send_delayed("T", b"later", delay=3600, key=f"timer-{number}")
            await producer.send_delayed("T", b"later", delay_level=18, key="level")
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:  # until a page has no cursor
            page = await world.get("/api/v1/scheduled", "WaitingPage", limit=2, **cursor)
            found += page["messages"]
            if page["cursor"] is None:
                break
            cursor = {"cursor": page["cursor"]}
        assert [row["keys"] for row in found] == [*([f"timer-{n}"] for n in range(5)), ["level"]]
        assert [row["level"] for row in found] == [0, 0, 0, 0, 0, 18]
        assert all(row["due_ms"] - row["stored_ms"] in (3_600_000, 7_200_000) for row in found)
        assert page["total"] == 6
        assert page["next_due_ms"] == min(row["due_ms"] for row in found)
        said = await run(world, page["command"])
        assert [row["position"] for row in said] == [row["position"] for row in found]
        async with world.mq.transaction_producer("PG", lambda _: Decision.COMMIT) as producer:
            begun = await producer.begin("T", b"both", key="half")
            (half,) = (await world.get("/api/v1/transactions", "WaitingPage"))["messages"]
            assert (half["group"], half["topic"], half["keys"]) == ("PG", "T", ["half"])
            assert (await run(world, "dledger txn list"))[0]["group"] == "PG"
            await begun.rollback()
        assert not (await world.get("/api/v1/transactions", "WaitingPage"))["messages"]
        step, *rest = (await world.get("/api/v1/messages/trace", topic="T", key="half"))["steps"]
        assert (step["detail"], rest) == ("has its outcome", [])
        for wrong in ("W10", "WzEsMl0", "x"):
            status, _ = await world.call("GET", "/api/v1/scheduled", params={"cursor": wrong})
            assert status == 400


async def test_a_message_is_sent_again_to_its_topic_or_one_group(make_world: MakeWorld) -> None:
    async with make_world() as world:
        message = await one_dead(world)
        place: dict[str, Any] = {"topic": "T", "broker": "broker-a", "queue": 0, "offset": 0}
        found = await post(world, "/api/v1/messages/resend", "Resent", **place)
        assert found["command"] == "dledger message resend T --at broker-a:0:0"
        (by_command,) = await run(world, found["command"])
        assert [found["offset"], by_command["offset"]] == [1, 2]
        page = await world.get("/api/v1/messages", "MessagePage", topic="T", order="oldest")
        first, *copies = page["messages"]
        for copy in copies:
            assert copy["properties"][RESENT_OF] == first["message_id"] == message.message_id
            for name in ("keys", "tags", "body", "of_topic"):
                assert copy[name] == first[name]
            assert copy["properties"]["own"] == "yes"
            assert copy["message_id"] != first["message_id"]
        await post(world, "/api/v1/messages/resend", "Resent", **place, to_group="readers")
        retry = await world.get("/api/v1/messages", "MessagePage", topic="%RETRY%readers")
        assert [row["properties"][RESENT_OF] for row in retry["messages"]] == [message.message_id]
        assert retry["messages"][0]["properties"]["RETRY_TOPIC"] == "T"
        for wrong, wanted in (
            ({"offset": 99}, 404),
            ({"to_topic": "no topic"}, 404),
            ({"to_group": "nobody"}, 404),
            ({"to_topic": "T", "to_group": "readers"}, 400),
        ):
            status, said = await world.call(
                "POST", "/api/v1/messages/resend", json={**place, **wrong}
            )
            assert status == wanted, said


async def test_dead_letters_are_read_again_by_their_group(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await one_dead(world)
        path = "/api/v1/dead-letters/readers/resend"
        dry = await post(world, path, "DeadLettersResent")
        assert (dry["dry_run"], dry["messages"], dry["cursor"]) == (True, 1, None)
        assert dry["command"] == "dledger dlq resend readers --to group -n 100"
        assert (await run(world, dry["command"] + " --dry-run"))[0]["of_topic"] == "T"
        done = await post(world, path, "DeadLettersResent", dry_run=False)
        assert done["messages"] == 1
        async with world.mq.consumer("T", group="readers", config=MANUAL) as consumer:
            again = await received(consumer)
            assert (again.topic, again.body, again.keys) == ("T", b"\x00 body", ["k"])
            assert again.attempt == 1
            consumer.ack(again)
            await consumer.commit()
        page = await world.get("/api/v1/messages", "MessagePage", topic="T")
        assert len(page["messages"]) == 1, "other groups get nothing"
        (row,) = await run(world, "dledger dlq resend readers --to topic")
        assert row["to_topic"] == "T"
        assert not (await post(world, path, "DeadLettersResent", from_ms=9 * 10**12))["messages"]
        assert not (await post(world, "/api/v1/dead-letters/nobody/resend", "DeadLettersResent"))[
            "messages"
        ]


async def test_an_error_among_dead_letters_says_where_to_go_on(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_world() as world:
        message = await one_dead(world)
        for _ in range(2):
            back = encode(SendBackRequest(message.position, "readers", -1))
            await ask_leader(
                world.mq.instance, "broker-a", "T", RequestCode.CONSUMER_SEND_MSG_BACK, back
            )
        send, sent = resending._send, list[int]()

        async def failing(*arguments: Any) -> Any:
            sent.append(arguments[2].queue_offset)
            if len(sent) == 3:
                raise ServiceNotAvailable("the broker rests")
            return await send(*arguments)

        monkeypatch.setattr(resending, "_send", failing)
        path = "/api/v1/dead-letters/readers/resend"
        first = await post(world, path, "DeadLettersResent", dry_run=False)
        assert first["messages"] == 2
        assert "rests" in first["failed"]
        rest = await post(world, path, "DeadLettersResent", dry_run=False, cursor=first["cursor"])
        assert (rest["messages"], rest["failed"], rest["cursor"]) == (1, None, None)
        assert sent == [0, 1, 2, 2]


async def test_dead_letters_of_an_ordered_group_are_not_sent_into_the_void(
    make_world: MakeWorld,
) -> None:
    async with make_world() as world:
        await one_dead(world)
        queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
        locks = {"consumerGroup": "readers", "clientId": "one", "mqSet": [queue]}
        await ask_leader(
            world.mq.instance,
            "broker-a",
            "T",
            RequestCode.LOCK_BATCH_MQ,
            {},
            body=json.dumps(locks).encode(),
        )
        path = "/api/v1/dead-letters/readers/resend"
        status, said = await world.call("POST", path, json={"dry_run": False})
        assert (status, said["error"]["id"]) == (409, "illegal-operation"), said
        assert "consumes in order" in said["error"]["message"]


async def test_dead_letters_are_exported_whole(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await one_dead(world)
        page = await world.get("/api/v1/dead-letters/readers/export", "MessagePage")
        (letter,) = page["messages"]
        assert base64.b64decode(letter["body"]["value"]) == b"\x00 body"
        words = ["dlq", "export", "readers", "-a", world.address]
        found = await asyncio.to_thread(CliRunner().invoke, dledger, words)
        (line,) = found.stdout.splitlines()
        row = json.loads(line)
        assert base64.b64decode(row["body_base64"]) == b"\x00 body"
        assert row["properties"]["own"] == "yes"
        assert await run(world, "dledger dlq list") == [
            {"group": "readers", "topic": "%DLQ%readers", "messages": 1}
        ]
        place = f"{letter['broker']}:{letter['queue']}:{letter['offset']}"
        (one,) = await run(world, f"dledger message get %DLQ%readers --at {place}")
        assert one["keys"] == ["k"]


async def test_large_dead_letters_are_exported_whole_a_few_on_each_page(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page ends where its bodies are larger than its limit, and no body is cut off."""
    monkeypatch.setattr(dead_letters, "EXPORTED_BYTES_MAX", 250_000)
    bodies = [bytes([number]) * (100_000 + number) for number in range(4)]
    bodies.append(b"z" * (2 << 20))
    async with make_world() as world:
        await world.mq.admin().create_topic("%DLQ%readers", 1)
        async with world.mq.producer() as producer:
            for body in bodies:
                await producer.send("%DLQ%readers", body)
        path, cursor, found = "/api/v1/dead-letters/readers/export", {}, []
        while cursor is not None:
            page = await world.get(path, "MessagePage", **cursor)
            found.append([base64.b64decode(row["body"]["value"]) for row in page["messages"]])
            assert not any(row["body"]["is_cut"] for row in page["messages"])
            cursor = page["cursor"] and {"cursor": page["cursor"]}
        assert [body for page in found for body in page] == bodies
        assert max(len(page) for page in found) == 2


async def test_settings_are_shown_with_their_origins_and_without_secrets(
    make_world: MakeWorld,
) -> None:
    async with make_world() as world:
        found = await world.get("/api/v1/settings", "Settings")
        given = {row["key"]: (row["value"], row["origin"]) for row in found["settings"]}
        assert set(given) == {"raft.node_id", "raft.secret", "admin.ready_lag_max"}
        assert given["raft.secret"][0] == "***"
        assert given["admin.ready_lag_max"][0] == "77"
        assert {origin for _, origin in given.values()}.isdisjoint({"default", ""})
        every = await world.get("/api/v1/settings", "Settings", which="all", filter="READY_LAG")
        (row,) = every["settings"]
        assert (row["key"], bool(row["meaning"])) == ("admin.ready_lag_max", True)
        assert found["command"] == "dledger config show --origin"
        assert "nobody may" not in str(found)


def test_a_setting_is_told_with_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[raft]\nsecret = "a secret of some length"\n[admin]\nready_lag_max = 5\n')
    for key, wanted in (("admin.ready_lag_max", 5), ("raft.secret", "***")):
        done = CliRunner().invoke(dledger, ["config", "get", key, str(file), "-o", "json"])
        (row,) = json.loads(done.stdout)
        assert (row["value"], row["origin"]) == (wanted, f"file {file}")
    done = CliRunner().invoke(dledger, ["config", "get", "admin.ready_lag"])
    assert done.exit_code == 3
    assert "perhaps admin.ready_lag_max" in done.output


async def test_what_the_audit_log_does_not_have_is_said(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account that may send and is no administrator's sends again, without an entry."""

    async def refuses(*_: Any, **__: Any) -> None:
        raise Unauthorized("no administrator; use another account")

    async with make_world() as world:
        await one_dead(world)
        monkeypatch.setattr(audit, "ask_leader", refuses)
        place: dict[str, Any] = {"topic": "T", "broker": "broker-a", "queue": 0, "offset": 0}
        sent = await post(world, "/api/v1/messages/resend", "Resent", **place)
        assert "no entry of this: the account is no administrator's" in sent["not_logged"]
        path = "/api/v1/dead-letters/readers/resend"
        found = await post(world, path, "DeadLettersResent", dry_run=False)
        assert found["not_logged"] == sent["not_logged"]
        monkeypatch.undo()
        sent = await post(world, "/api/v1/messages/resend", "Resent", **place)
        assert sent["not_logged"] == ""
