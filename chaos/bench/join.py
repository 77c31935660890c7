"""Measures how fast a new node copies a large log, and how much that slows producers down.

    gib           log per node before the first node joins (default 10)
    load          share of what single sends reach here that is sent meanwhile (default 0.5)
    seconds       of that load before the second node joins, to compare with (default 20)
    rate_seconds  of single sends with a full window, which tell what they reach (default 3)
    body_size     bytes per message (default 1024)
    folder        where to work; needs four times the size, and what is sent under load

Three nodes are filled, by a producer that batches; a fresh fourth joins while nobody sends, and is
removed again. Then one producer sends, each message by itself: as many as it can, to learn what
half of that is, and at that rate before and while another fresh one joins; between the two the
process of that one starts, and what piled up meanwhile is worked off. A node joins from when
it is taken in, and has joined when it has on its disk all that was committed then, and is a voter.
Bars: 100 MB/s while nobody sends; p99 of sends at most twice what it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import cluster as dledger_cluster
from cluster.bench.filling import fill
from cluster.bench.load import FullLoad, SteadyLoad
from cluster.bench.scratch import cpu_seconds, process_of, scratch_cluster
from cluster.client import Admin
from cluster.errors import ClusterError, InvalidRequest
from cluster.local import plan
from cluster.local.admin import status as node_status
from cluster.local.launcher import LocalCluster
from dledger.runtime.loop import collect_seldom, loop_factory

TOPIC = "join"
IDLE_MB_PER_SECOND_BAR = 100.0
P99_RATIO_BAR = 2.0
JOIN_SECONDS_MAX = 1800.0
START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
SETTLE_SECONDS = 1.0
CALM_SECONDS_MAX = 15.0


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Options of the bench; see the module's text."""

    gib: float = 10.0
    load: float = 0.5
    seconds: float = 20.0
    rate_seconds: float = 3.0
    body_size: int = 1024
    folder: str = ""


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object."""
    given = JoinOptions(**options)
    collect_seldom()
    with (
        scratch_cluster(given.folder) as cluster,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        filled = runner.run(fill(cluster, TOPIC, int(given.gib * 1024), given.body_size))
        idle, loaded = runner.run(_both(cluster, given))
    before, during = loaded["before"]["p99_ms"], loaded["meanwhile"]["p99_ms"]
    return {
        "bench": "join",
        "options": asdict(given),
        "messages": filled,
        "idle": idle,
        "loaded": loaded,
        "bars": {
            "idle_mb_per_second": IDLE_MB_PER_SECOND_BAR,
            "idle_met": idle["mb_per_second"] >= IDLE_MB_PER_SECOND_BAR,
            "p99_ratio": P99_RATIO_BAR,
            "p99_met": during <= P99_RATIO_BAR * before,
        },
    }


async def _both(
    cluster: LocalCluster, options: JoinOptions
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A join of an idle group, then one under load; the second with latencies of its producer."""
    async with (
        dledger_cluster.connect(cluster.nameserver) as client,
        client.producer() as producer,
    ):
        admin = client.admin()
        broker = next(iter((await admin.status()).brokers))
        idle = await _join(cluster, admin, broker, await _fresh(cluster, "n3"))
        await _leave(cluster, admin, broker, "n3")
        await producer.open_topic(TOPIC)
        full = FullLoad(producer, TOPIC, producer.config.in_flight_max, options.body_size)
        seconds = await full.run(options.rate_seconds)
        reached = len(full.latencies) / seconds
        load = SteadyLoad(producer, TOPIC, options.load * reached, options.body_size)
        sending = asyncio.ensure_future(load.run())
        try:
            await asyncio.sleep(SETTLE_SECONDS)
            before = await _noticed(load, asyncio.sleep(options.seconds))
            fresh = await _fresh(cluster, "n4")
            calm_after = await _calm(load, before["p99_ms"])
            joining = asyncio.ensure_future(_join(cluster, admin, broker, fresh))
            during = await _noticed(load, joining)
        finally:
            load.stopped = True
            await sending
    return idle, joining.result() | {
        "single_sends_reach": round(reached),
        "rate": round(load.rate),
        "before": before,
        "calm_after_s": calm_after,
        "meanwhile": during,
    }


async def _noticed(load: SteadyLoad, what: Awaitable[object]) -> dict[str, float]:
    """Latencies and rate of a load until the awaitable has ended."""
    load.forget()
    began = time.monotonic()
    await what
    seconds = time.monotonic() - began
    return {
        "p50_ms": round(load.percentile_ms(0.50), 2),
        "p99_ms": round(load.percentile_ms(0.99), 2),
        "answered_per_second": round(load.count / seconds),
    }


async def _calm(load: SteadyLoad, p99_ms: float) -> float:
    """Until sends take as long as before again; seconds it took, at most CALM_SECONDS_MAX.

    A process that starts takes a processor for a second or two of all nodes and of the producer, as
    none on another machine would. What is due meanwhile waits, and what comes after it too.
    """
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < CALM_SECONDS_MAX:
        noticed = await _noticed(load, asyncio.sleep(SETTLE_SECONDS))
        if noticed["p99_ms"] <= p99_ms:
            break
    return round(seconds, 1)


async def _fresh(cluster: LocalCluster, name: str) -> str:
    """Start a node that has no group yet; its start takes a processor and is not measured."""
    await asyncio.to_thread(cluster.add_node, name, plan.scratch_hosts(1)[1])
    async with asyncio.timeout(START_SECONDS_MAX):
        await _status(cluster, name)
    return name


async def _join(cluster: LocalCluster, admin: Admin, broker: str, name: str) -> dict[str, Any]:
    """Add a running new node to the group; returns seconds, bytes, CPU. Raises TimeoutError."""
    async with asyncio.timeout(JOIN_SECONDS_MAX):
        leader = await asyncio.to_thread(cluster.leader)
        goal = await _status(cluster, leader or "n0")
        before = {node: _cpu(cluster, node) for node in cluster.brokers}
        await _add(admin, broker, name)
        began = time.monotonic()

        async def has_all() -> bool:
            found = await _status(cluster, name)
            return int(found["flushed_index"]) >= int(goal["last_index"])

        await _until(has_all)
        seconds = time.monotonic() - began
        used = {node: _cpu(cluster, node) - before[node] for node in before}

        async def votes() -> bool:
            return await _standing(admin, broker, name) == "voter"

        await _until(votes)
    megabytes = goal["end_position"] / 1e6
    return {
        "mb": round(megabytes),
        "seconds": round(seconds, 2),
        "mb_per_second": round(megabytes / seconds, 1),
        "joined_cpu_s": round(used.pop(name), 2),
        "other_cpu_s_max": round(max(used.values()), 2),
    }


async def _leave(cluster: LocalCluster, admin: Admin, broker: str, name: str) -> None:
    """Remove the node, so that a second join starts as the first one, with space for its log."""
    async with asyncio.timeout(START_SECONDS_MAX):
        while True:  # bounded by the time limit above
            try:
                await admin.change_members(broker, "remove", name)
                break
            except InvalidRequest:  # an attempt whose answer was lost has done it
                break
            except ClusterError:
                await asyncio.sleep(POLL_SECONDS)
    await asyncio.to_thread(cluster.forget_node, name)


def _cpu(cluster: LocalCluster, name: str) -> float:
    return cpu_seconds(process_of(cluster, name))


async def _status(cluster: LocalCluster, name: str) -> dict[str, Any]:
    """The status of one node, when it answers; to ask all nodes would disturb the load."""
    while True:  # bounded by the time limit of the caller
        found = await asyncio.to_thread(node_status, cluster.profile.member(name), None)
        if found is not None:
            return found
        await asyncio.sleep(POLL_SECONDS)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    """Wait, looking every POLL_SECONDS."""
    while True:  # bounded by the time limit of the caller
        if await done():
            return
        await asyncio.sleep(POLL_SECONDS)


async def _add(admin: Admin, broker: str, name: str) -> None:
    """Until it is done: the node has to call first."""
    while True:  # bounded by the time limit of the caller
        try:
            await admin.change_members(broker, "add", name)
            return
        except ClusterError:
            if await _standing(admin, broker, name):
                return
            await asyncio.sleep(POLL_SECONDS)


async def _standing(admin: Admin, broker: str, name: str) -> str:
    """The node's standing in the group's newest configuration; "" for a node that is no member, and
    while no broker answers.
    """
    try:
        rows = (await admin.members(broker))["members"]
    except ClusterError:
        return ""
    return next((str(row["standing"]) for row in rows if row["node"] == name), "")
