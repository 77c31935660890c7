"""Measures creation of very many topics, and their cost for a node.

    topics      how many (default 20000)         queues      of each (default 4)
    in_flight   creations at once (default 256)  messages    put one into every queue (default true)
    folder      where to work

Reported: creations per second, messages per second while every queue gets its first one, memory,
mapped files and open files of one node, and how long until a killed node, and the cluster, serves
again. Bars for 20,000 × 4: 500 creations/s, 10 s to start, 600 MB for one idle node; mappings
stay far below the kernel's 65,530 per process.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cluster as dledger_cluster
from cluster.bench.scratch import process_of, scratch_cluster, wait_until_serving
from cluster.client.client import Client
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import CreateTopicRequest, encode

CREATE_RATE_MIN = 500.0  # per second
START_SECONDS_MAX = 10.0
IDLE_RSS_MAX = 600e6  # bytes
MAPS_MAX = 65_530  # vm.max_map_count, the kernel's default
BROKER = "broker-a"
TIME_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class TopicsOptions:
    """Options of the bench; see the module's text."""

    topics: int = 20_000
    queues: int = 4
    in_flight: int = 256
    messages: bool = True
    folder: str = ""


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object."""
    given = TopicsOptions(**options)
    with scratch_cluster(given.folder) as cluster:
        create_seconds, send_seconds = asyncio.run(_fill(cluster, given))
        before = _cost(cluster, "n0")
        cluster.kill("n0")
        began = time.monotonic()
        cluster.start("n0")
        one = wait_until_serving(cluster, began)
        cluster.kill_all()
        began = time.monotonic()
        for name in cluster.brokers:
            cluster.start(name)
        everyone = wait_until_serving(cluster, began)
        after = _cost(cluster, "n0")
    rate = given.topics / create_seconds
    rss = max(before["rss"], after["rss"])
    return {
        "bench": "topics",
        "options": asdict(given),
        "created_per_second": round(rate),
        "messages_per_second": round(given.topics * given.queues / send_seconds)
        if send_seconds
        else None,
        "node": before,
        "node_after_restart": after,
        "node_ready_s": round(one, 2),
        "cluster_ready_s": round(everyone, 2),
        "bars": {
            "created_per_second_min": CREATE_RATE_MIN,
            "created_per_second_met": rate >= CREATE_RATE_MIN,
            "start_s_max": START_SECONDS_MAX,
            "start_met": max(one, everyone) <= START_SECONDS_MAX,
            "rss_max": IDLE_RSS_MAX,
            "rss_met": rss <= IDLE_RSS_MAX,
            "maps_max": MAPS_MAX,
            "maps_met": max(before["maps"], after["maps"]) < MAPS_MAX // 2,
        },
    }


async def _fill(cluster: LocalCluster, given: TopicsOptions) -> tuple[float, float]:
    """Make the topics, then put a message into every queue; seconds of both."""
    async with dledger_cluster.connect(cluster.nameserver) as client:
        began = time.monotonic()
        await _each(given, lambda number: _create(client, number, given.queues))
        created = time.monotonic() - began
        if not given.messages:
            return created, 0.0
        async with client.producer() as producer:
            began = time.monotonic()

            async def send(number: int) -> None:
                for queue in range(given.queues):
                    await producer.send(_name(number), b"one message", queue_id=queue)

            await _each(given, send)
            return created, time.monotonic() - began


def _name(number: int) -> str:
    return f"topic-{number:06d}"


async def _create(client: Client, number: int, queues: int) -> None:
    request = encode(CreateTopicRequest(_name(number), "TBW102", queues, queues, 6))
    connection = await client.leaders.connection(BROKER, _name(number))
    await connection.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, request, time_limit=TIME_LIMIT)


async def _each(given: TopicsOptions, work: Any) -> None:
    """`work(number)` for every topic, `in_flight` at once."""
    numbers = iter(range(given.topics))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(given.in_flight)))


def _cost(cluster: LocalCluster, name: str) -> dict[str, int]:
    """Memory in bytes, mappings and open files of a node's process."""
    process = process_of(cluster, name)
    maps = Path(f"/proc/{process.pid}/maps").read_text().count("\n")
    memory = process.memory_full_info()
    return {
        "rss": int(memory.rss),
        "anonymous": int(memory.uss),
        "maps": maps,
        "files": process.num_fds(),
    }
