"""A folder that the former release wrote: opened, whole, and gone on with by today's node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.client import Client
from tests.integration.former import COMMIT
from tests.integration.golden_former import (
    CHIEF,
    COUNT,
    EXPECTED,
    LATER,
    READ,
    SECRET,
    TOPIC,
    WRITER,
    config_of,
    unpack,
)
from tests.integration.nodes_by_hand import by_hand, done

RIGHTS = {"default_topic": "PUB|SUB", "default_group": "PUB|SUB", "max_messages": 1000}


async def bodies(client: Client, topic: str, count: int, group: str) -> list[str]:
    """The next messages of a group, acknowledged."""
    found: list[str] = []
    async with client.consumer(topic, group=group) as consumer:
        while len(found) < count:
            message = await consumer.receive(30.0)
            assert message is not None, found
            found.append(message.body.decode())
            consumer.ack(message)
    return found


async def judge_messages(nameserver: str, rows: list[dict[str, Any]]) -> None:
    async with cluster.connect(nameserver, config_of(WRITER)) as client:
        async with client.reader(TOPIC) as reader:
            read = [await reader.receive(30.0) for _ in rows]
        held = {
            (one.queue.queue_id, one.queue_offset): (one.body.decode(), one.keys, one.tags)
            for one in read
            if one is not None
        }
        assert held == {
            (row["queue"], row["offset"]): (row["body"], [row["key"]], "red") for row in rows
        }
        found = await client.admin().find_messages(TOPIC, "key-3")
        assert [one.body.decode() for one in found] == [
            row["body"] for row in rows if row["key"] == "key-3"
        ]
        assert await bodies(client, LATER, 1, "late-readers") == ["delayed"], "its hour has passed"
        left = await bodies(client, TOPIC, COUNT - READ, "readers")
        assert len(set(left)) == COUNT - READ, "the group goes on where it was"
        async with client.producer() as producer:
            receipt = await producer.send(TOPIC, b"today", queue_id=0)
            assert receipt.queue_offset == sum(row["queue"] == 0 for row in rows)


def as_json(*arguments: str) -> Any:
    return json.loads(done(*arguments, "-o", "json"))


@pytest.mark.timeout(120)
def test_a_folder_of_the_former_release_is_served(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    expected = json.loads(EXPECTED.read_text("utf-8"))
    assert expected["release"] == COMMIT, "make it anew: python -m tests.integration.golden_former"
    host = new_address()
    unpack(tmp_path, host)
    chief = tmp_path / "chief.yml"
    chief.write_text(f"accessKey: {CHIEF}\nsecretKey: {SECRET}\n")
    admin = ["-a", f"{host}:9876", "--account", str(chief)]
    with by_hand(tmp_path) as nodes:
        nodes.name_server(host)
        nodes.run("n0")
        nodes.serves("n0")
        asyncio.run(judge_messages(admin[1], expected["messages"]))
        accounts = {row["account"]: row for row in as_json("account", "list", *admin)}
        assert accounts[CHIEF]["admin"]
        assert {name: accounts[WRITER][name] for name in RIGHTS} == RIGHTS
        assert accounts[WRITER]["secrets"] == 1
        assert len(as_json("txn", "list", *admin)) == 1
        (live,) = as_json("config", "live", *admin)
        assert "reserved_hours" in str(live)
        assert "720" in str(live)
        verbs = [row["verb"] for row in as_json("audit", *admin)]
        assert verbs.count("account create") == verbs.count("topic create") == 2
        assert verbs.count("config set") == 1
