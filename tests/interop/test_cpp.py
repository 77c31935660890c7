"""The official C++ client, unmodified from its package index, against a running cluster."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.client import ConsumerConfig
from cluster.local.launcher import LocalCluster
from tests.waiting import limit

pytestmark = [
    pytest.mark.timeout(90),  # the library's own waits: rebalancing up to 10 s, shutdown 1 s
    pytest.mark.skipif(
        sys.platform != "linux", reason="not here: the package holds a library for Linux only"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("rocketmq") is None, reason="needs the package rocketmq"
    ),
]

# What the two tests below hold, as the matrix names it.
SCENARIOS = (
    *("send_sync", "send_oneway", "send_batch", "push_concurrent", "group_progress"),
    *("ordered sends to one queue", "pull"),
)
CLIENT = Path(__file__).parent / "cpp" / "cpp_client.py"


def cpp(home: Path, local: LocalCluster, *arguments: object) -> Any:
    """What the C++ client printed."""
    command = [sys.executable, str(CLIENT), local.nameserver, *map(str, arguments)]
    result = subprocess.run(
        command, env={"HOME": str(home)}, capture_output=True, text=True, timeout=limit(80)
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


async def create(local: LocalCluster, topic: str) -> None:
    async with cluster.connect(local.nameserver) as client:
        await client.admin().create_topic(topic, 4)


def test_cpp_produces_we_consume(plain_cluster: LocalCluster, tmp_path: Path) -> None:
    topic = "CppToUs"
    asyncio.run(create(plain_cluster, topic))
    sent = cpp(tmp_path, plain_cluster, "produce", topic, 5)
    assert [row["status"] for row in sent] == [0] * 5
    assert len({row["id"] for row in sent}) == 5

    async def consume() -> list[Any]:
        async with (
            cluster.connect(plain_cluster.nameserver) as client,
            client.consumer(topic, group="CG_US") as consumer,
        ):
            found = []
            while len(found) < 17 and (message := await consumer.receive(10)) is not None:
                found.append(message)
            assert await consumer.receive(0.3) is None, "nothing twice"
            return found

    found = asyncio.run(consume())
    bodies = sorted(message.body.decode()[:40] for message in found)
    expected = [f"{kind}-{number}" for kind in ("sync", "orderly", "batch") for number in range(5)]
    assert bodies == sorted([*expected, "oneway", "large-" + "x" * 34])
    (large,) = [message for message in found if message.body.startswith(b"large")]
    assert len(large.body) == 20_006
    assert len(large.stored_body) < 1000, "it came compressed and stays so in the log"
    orderly = [message for message in found if message.body.startswith(b"orderly")]
    assert len({message.queue for message in orderly}) == 1
    assert [message.body for message in orderly] == [b"orderly-%d" % n for n in range(5)]
    for message in found:
        label = message.body.decode()[:40]
        assert message.keys == [f"key-{label}"]
        assert message.properties["mine"] == label
        assert message.tags == "TagA"


def test_we_produce_cpp_consumes(plain_cluster: LocalCluster, tmp_path: Path) -> None:
    topic = "UsToCpp"

    async def produce() -> list[tuple[int, int]]:
        async with cluster.connect(plain_cluster.nameserver) as client:
            await client.admin().create_topic(topic, 4)
            async with client.producer() as producer:
                receipts = await asyncio.gather(
                    *[
                        producer.send(topic, b"%d" % n, key=f"key-{n}", tags="TagA")
                        for n in range(40)
                    ]
                )
        return [(receipt.queue.queue_id, receipt.queue_offset) for receipt in receipts]

    places = asyncio.run(produce())
    found = cpp(tmp_path, plain_cluster, "push", topic, "CG_CPP", 40)
    by_body = {row["body"]: row for row in found}
    assert sorted(by_body, key=int) == [str(n) for n in range(40)]
    for number, place in enumerate(places):
        row = by_body[str(number)]
        assert (row["queue"], row["offset"]) == place
        assert (row["tags"], row["keys"]) == ("TagA", f"key-{number}")
    pulled = cpp(tmp_path, plain_cluster, "pull", topic, "CG_PULL")
    assert sorted(pulled, key=int) == [str(n) for n in range(40)]

    async def position() -> None:
        """The C++ group's position was stored: we go on where it stopped."""
        config = ConsumerConfig(start="first")
        async with (
            cluster.connect(plain_cluster.nameserver) as client,
            client.consumer(topic, group="CG_CPP", config=config) as consumer,
        ):
            assert await consumer.receive(2) is None

    asyncio.run(position())
