"""Memory and CPU of the nodes: idle first, then under steady load for as long as you like.

    seconds        of load (default 600)
    idle_seconds   of no load before it (default 20)
    rate           messages per second (default 5000)
    body_size      bytes per message (default 1024)
    folder         where to work

Anonymous memory only: mapped log files are the page cache's. Bars: 80 MB per idle node, 200 MB
under load, 0.06 core for the idle cluster of three, and no growth: the median of the last fifth of
the samples is within 5 % and 3 MB of the median of the second fifth.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import psutil

import cluster as dledger_cluster
from cluster.bench.scratch import anonymous_mb, cpu_seconds, process_of, scratch_cluster
from cluster.client import Producer
from cluster.local.launcher import LocalCluster

TOPIC = "soak"
IDLE_MB_BAR = 80.0
LOAD_MB_BAR = 200.0
IDLE_CORES_BAR = 0.06
SAMPLES = 60
SETTLE_SECONDS = 3.0  # start-up work is over by then
TICK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """Options of the bench; see the module's text."""

    seconds: float = 600.0
    idle_seconds: float = 20.0
    rate: int = 5000
    body_size: int = 1024
    folder: str = ""


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object."""
    given = SoakOptions(**options)
    with scratch_cluster(given.folder) as cluster:
        nodes = [process_of(cluster, name) for name in cluster.brokers]
        time.sleep(min(SETTLE_SECONDS, given.idle_seconds))
        idle_mb = max(anonymous_mb(node) for node in nodes)
        idle_cores = _cores(nodes, given.idle_seconds)
        sent, samples = asyncio.run(_load(cluster, nodes, given))
    growth = _growth(samples)
    result = {
        "bench": "soak",
        "options": asdict(given),
        "idle_mb": round(idle_mb, 1),
        "idle_cores": round(idle_cores, 3),
        "load_mb": round(max(samples), 1),
        "growth_mb": round(growth, 2),
        "acked": sent,
        "samples_mb": [round(sample, 1) for sample in samples],
    }
    result["passed"] = (
        idle_mb <= IDLE_MB_BAR
        and idle_cores <= IDLE_CORES_BAR
        and max(samples) <= LOAD_MB_BAR
        and growth <= 3 + 0.05 * statistics.median(samples)
    )
    return result


def _cores(nodes: list[psutil.Process], seconds: float) -> float:
    """Cores that these processes use together while no client sends a request."""
    before = sum(cpu_seconds(node) for node in nodes)
    began = time.monotonic()
    time.sleep(seconds)
    used = sum(cpu_seconds(node) for node in nodes) - before
    return used / (time.monotonic() - began)


def _growth(samples: list[float]) -> float:
    """MB between the second fifth and the last one; the first is warming up."""
    fifth = max(1, len(samples) // 5)
    return statistics.median(samples[-fifth:]) - statistics.median(samples[fifth : 2 * fifth])


async def _load(
    cluster: LocalCluster, nodes: list[psutil.Process], options: SoakOptions
) -> tuple[int, list[float]]:
    """Messages acknowledged, and the largest node's memory at `SAMPLES` moments."""
    samples = []
    async with (
        dledger_cluster.connect(cluster.nameserver) as client,
        client.producer() as producer,
    ):
        sending = asyncio.ensure_future(_send_steadily(producer, options))
        for _ in range(SAMPLES):
            await asyncio.sleep(options.seconds / SAMPLES)
            samples.append(max(anonymous_mb(node) for node in nodes))
        return await sending, samples


async def _send_steadily(producer: Producer, options: SoakOptions) -> int:
    """Send `rate` messages a second; falls behind rather than piling up when that is too much."""
    body = os.urandom(options.body_size)
    await producer.open_topic(TOPIC)
    began = time.monotonic()
    sent = 0
    sends: set[asyncio.Task[Any]] = set()
    while (passed := time.monotonic() - began) < options.seconds:
        sends_free = producer.config.in_flight_max - len(sends)
        for _ in range(min(sends_free, int(passed * options.rate) - sent)):
            sends.add(asyncio.ensure_future(producer.send(TOPIC, body)))
            sent += 1
        done = {send for send in sends if send.done()}
        sends -= done
        for send in done:
            send.result()
        await asyncio.sleep(TICK_SECONDS)
    await asyncio.gather(*sends)
    return sent
