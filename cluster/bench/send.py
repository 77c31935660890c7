"""`dledger bench send`: a cluster of processes and one client; rate, latency, CPU per message.

    client ── window messages of random bytes in flight ──► leader ─► followers
           mode "single"    every message is its own request
           mode "batching"  the client puts what waits together into batches

Reported for each mode and window: acknowledged messages per second, p50 and p99 from send to
receipt, CPU microseconds per message of leader, follower (mean) and client; and, measured just
before on the same disk, what the disk can do (disk.py). A message is acknowledged when a majority
has it on disk.

    modes            single, batching, or both joined by a comma (default both)
    windows          messages in flight (default 1,1024)
    seconds          of load for each mode and window (default 5)
    warm_up_seconds  of load before it that does not count (default 1)
    body_size        bytes per message (default 1024)
    queues           of the topic (default 4)
    settings         section.key=value joined by ";" for the cluster that is made
    root             folder of a running local cluster to use instead of one made for the run
    folder           where to work
    profile          PREFIX: cProfile files of the nodes in PREFIX.<process id>, and the leader's
                     hottest functions in the result (slower run)

Bars at 1,024 in flight: single ≥ 35,000/s; batching ≥ 80,000/s, or 70 % of the disk's limit for
three copies if that is lower. At 1 in flight: p50 at most 3 appends + fdatasync of 4 KiB, or
0.6 ms.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

import cluster as dledger_cluster
from cluster.bench.disk import DiskLimits, measure, percentile
from cluster.bench.load import FullLoad
from cluster.bench.scratch import bench_cluster, cpu_seconds, hottest, process_of, profiling
from cluster.client import Client, ClientConfig, ProducerConfig
from cluster.local.launcher import LocalCluster
from dledger.runtime.loop import collect_seldom, loop_factory

SINGLE = "single"
BATCHING = "batching"
BAR_WINDOW = 1024
SINGLE_BAR = 35_000
BATCHING_BAR = 80_000
DISK_SHARE_BAR = 0.7
WINDOW_1_P50_MS_BAR = 0.6


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Options of the bench (see the module's text); "" means none. Defaults: the published size."""

    folder: str = ""
    root: str = ""
    modes: tuple[str, ...] = (SINGLE, BATCHING)
    windows: tuple[int, ...] = (1, 1024)
    seconds: float = 5.0
    warm_up_seconds: float = 1.0
    body_size: int = 1024
    queues: int = 4
    settings: str = ""
    profile: str = ""

    @classmethod
    def smoke(cls, folder: Path) -> SendOptions:
        """Small enough for the test suite."""
        return cls(str(folder), windows=(1, 256), seconds=0.4, warm_up_seconds=0.1)


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object. Raises LauncherError when the cluster does not come up."""
    given = SendOptions(**options)
    if isinstance(given.windows, int):  # one value on the command line
        given = replace(given, windows=(given.windows,))
    if isinstance(given.modes, str):
        given = replace(given, modes=(given.modes,))
    collect_seldom()
    with tempfile.TemporaryDirectory(prefix="send-bench-", dir=given.folder or None) as name:
        limits = measure(Path(name))
    with (
        profiling(given.profile),
        bench_cluster(given.root, given.folder, given.settings) as cluster,
    ):
        leader = process_of(cluster, _leader(cluster))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            rows = runner.run(_measure_all(cluster, given))
    result = _judge(given, limits, rows)
    if given.profile:
        result["leader_profile"] = hottest(f"{given.profile}.{leader.pid}")
    return result


async def _measure_all(cluster: LocalCluster, options: SendOptions) -> list[dict[str, Any]]:
    topic = "bench-send"
    # On a loaded machine a stall is no sign of a dead leader.
    config = ClientConfig(stall_timeout=2.0, request_timeout=10.0)
    async with dledger_cluster.connect(cluster.nameserver, config) as client:
        await client.admin().create_topic(topic, options.queues)
        return [
            await _measure_one(cluster, client, topic, mode, window, options)
            for window in options.windows
            for mode in options.modes
            if window > 1 or mode == options.modes[0]  # one message alone is no batch
        ]


async def _measure_one(
    cluster: LocalCluster,
    client: Client,
    topic: str,
    mode: str,
    window: int,
    options: SendOptions,
) -> dict[str, Any]:
    """One mode and window: warm up, then measure; CPU of all processes over the measured span."""
    config = ProducerConfig(in_flight_max=window, batching=mode == BATCHING)
    leader = _leader(cluster)
    nodes = {name: process_of(cluster, name) for name in cluster.brokers}
    async with client.producer(config=config) as producer:
        await producer.open_topic(topic)
        await FullLoad(producer, topic, window, options.body_size).run(options.warm_up_seconds)
        before = _cpu(nodes)
        load = FullLoad(producer, topic, window, options.body_size)
        passed = await load.run(options.seconds)
        after = _cpu(nodes)
    acked = len(load.latencies)
    used = {name: (after[name] - before[name]) * 1e6 / acked for name in after}
    followers = [used[name] for name in cluster.brokers if name != leader]
    ordered = sorted(load.latencies)
    return {
        "mode": mode,
        "window": window,
        "acked": acked,
        "messages_per_second": acked / passed,
        "p50_ms": percentile(ordered, 0.50) * 1e3,
        "p99_ms": percentile(ordered, 0.99) * 1e3,
        "leader_cpu_us": used[leader],
        "follower_cpu_us": sum(followers) / max(len(followers), 1),
        "client_cpu_us": used[""],
        "record_size": load.record_size,
    }


def _leader(cluster: LocalCluster) -> str:
    leader = cluster.leader()
    assert leader is not None, "a cluster that is up has a leader"
    return leader


def _cpu(nodes: dict[str, psutil.Process]) -> dict[str, float]:
    """CPU seconds so far by node, and of this process under the empty name."""
    return {"": time.process_time()} | {name: cpu_seconds(node) for name, node in nodes.items()}


def _judge(options: SendOptions, limits: DiskLimits, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The result with its bars, next to the figures that they are computed from."""
    bars: dict[str, Any] = {}
    for row in rows:
        if row["window"] == 1:
            bars["window_1_p50_ms_max"] = max(3 * limits.append_p50_ms, WINDOW_1_P50_MS_BAR)
            bars["window_1_p50_met"] = row["p50_ms"] <= bars["window_1_p50_ms_max"]
        elif row["window"] == BAR_WINDOW:
            mode, rate = row["mode"], row["messages_per_second"]
            limit = limits.messages_per_second(row["record_size"])
            least = SINGLE_BAR if mode == SINGLE else min(BATCHING_BAR, DISK_SHARE_BAR * limit)
            bars |= {
                f"{mode}_disk_share": rate / limit,
                f"{mode}_min": least,
                f"{mode}_met": rate >= least,
            }
    return {
        "bench": "send",
        "options": asdict(options),
        "disk": asdict(limits),
        "rows": rows,
        "bars": bars,
    }
