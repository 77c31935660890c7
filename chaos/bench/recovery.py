"""How long until a killed node, or a killed cluster, serves again, with a large log?

    size_mib    log per node before the kills (default 2048)
    body_size   bytes per message (default 1024)
    folder      where to work; needs three times the size

One follower is killed under no load and started again; then all three. Serving is: /readyz says
yes (leader known, caught up), and, for the cluster, the first acknowledgement. Bar: 5 s, and no
longer for a long log than for a short one, since scanning begins at the checkpoint.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any

import cluster as dledger_cluster
from cluster.bench.filling import fill
from cluster.bench.scratch import cpu_seconds, process_of, scratch_cluster, wait_until_serving
from cluster.local.launcher import LocalCluster

TOPIC = "recovery"
SERVING_SECONDS_BAR = 5.0


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """Options of the bench; see the module's text."""

    size_mib: int = 2048
    body_size: int = 1024
    folder: str = ""


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object."""
    given = RecoveryOptions(**options)
    with scratch_cluster(given.folder) as cluster:
        filled = asyncio.run(fill(cluster, TOPIC, given.size_mib, given.body_size))
        follower = next(name for name in cluster.brokers if name != cluster.leader())
        one = _kill_one(cluster, follower)
        everyone, first_ack = asyncio.run(_kill_all(cluster))
        cpu = max(cpu_seconds(process_of(cluster, name)) for name in cluster.brokers)
    return {
        "bench": "recovery",
        "options": asdict(given),
        "messages": filled,
        "follower_ready_s": round(one, 2),
        "cluster_ready_s": round(everyone, 2),
        "cluster_first_ack_s": round(first_ack, 2),
        "node_cpu_s": round(cpu, 2),  # of one node's start: what is left on a machine of its own
        "serving_s_max": SERVING_SECONDS_BAR,
        "passed": max(one, everyone, first_ack) <= SERVING_SECONDS_BAR,
    }


def _kill_one(cluster: LocalCluster, name: str) -> float:
    cluster.kill(name)
    began = time.monotonic()
    cluster.start(name)
    return wait_until_serving(cluster, began)


async def _kill_all(cluster: LocalCluster) -> tuple[float, float]:
    cluster.kill_all()
    began = time.monotonic()
    for name in cluster.brokers:
        cluster.start(name)
    async with dledger_cluster.connect(cluster.nameserver) as client:
        ready = asyncio.ensure_future(asyncio.to_thread(wait_until_serving, cluster, began))
        async with client.producer() as producer:
            await producer.send(TOPIC, b"first after the restart")
            first_ack = time.monotonic() - began
        return await ready, first_ack
