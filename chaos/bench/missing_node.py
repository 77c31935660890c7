"""`dledger bench missing-node`: how much of the throughput is left while one node is away?

    whole │ follower killed │ whole │ follower stopped │ whole │ leader killed │ whole │ leader …

Senders send as fast as they are answered. A window begins when acknowledgements flow again, so that
a change of the leader is not in it (`dledger bench failover` measures those). Each window with a
node away is compared with the whole ones right before and after it: a machine that gets slower or
busier changes both. At the end every replica's log is read from its files and judged.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click

import cluster
from chaos.bench.under_load import SETTINGS, flowing, judged, report, sending
from chaos.history import Outcome
from chaos.live.load import Load
from chaos.live.nodes import Nodes
from cluster.bench.disk import percentile
from cluster.commands.output import report_option
from cluster.local import plan
from cluster.local.launcher import LocalCluster

TOPIC = "missing-node"
#: Bars of docs/spec/chaos.md 6, "availability with one node down or paused".
SHARE_MIN, LATENCY_TIMES_MAX = 0.8, 5.0
UNPACED = 1_000_000  # messages a second wanted: every worker sends again at once
GAP_SECONDS_MAX = 20.0
#: A paused node's answers that were under way may arrive for so long; they are no service.
LATE_SECONDS = 0.3
CAUGHT_UP_SECONDS_MAX = 60.0
LAG_MAX = 1000  # entries; a node behind by no more takes part in commits


class Window(NamedTuple):
    """One stretch of time: acknowledged messages a second, and how long the slow ones took."""

    rate: float
    p99_ms: float


Windows = tuple[Window, Window, Window]  # before, while the node was away, after
Found = dict[str, list[Windows]]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the bench; `root` must not hold a cluster. `away`: names of `AWAY`, all by
    default."""

    root: Path
    rounds: int = 3
    seconds: float = 5.0
    away: Sequence[str] = ()
    hosts: Sequence[str] = ()


async def run(options: Options) -> dict[str, object]:
    """Run it and return one object. Raises LauncherError, TimeoutError."""
    began = time.monotonic()
    members = plan.plan(3, options.hosts or plan.scratch_hosts(3))
    made = LocalCluster.create(options.root, members, SETTINGS, tied=True)
    found: Found = {name: [] for name in options.away or AWAY}
    gaps: list[float] = []
    async with Nodes(made) as nodes, cluster.connect(made.nameserver) as client:
        async with sending(client, TOPIC, UNPACED) as load:
            gaps.append(await flowing(load, time.monotonic(), seconds_max=GAP_SECONDS_MAX))
            before = await _window(load, options.seconds)
            for _ in range(options.rounds):
                for name, rows in found.items():
                    leads, away = AWAY[name]
                    async with away(nodes, await _chosen(nodes, leads=leads)) as moment:
                        gaps.append(await _served(load, moment))
                        without = await _window(load, options.seconds)
                    await _caught_up(nodes)
                    after = await _window(load, options.seconds)
                    rows.append((before, without, after))
                    before = after
        await nodes.settled()
    said = await judged(load, made, TOPIC, gaps, began)
    return summary(found) | said | {"passed": bool(said["passed"]) and enough(found)}


def summary(found: Found) -> dict[str, object]:
    """Medians over the rounds: share of the throughput left, and times the latency."""
    whole = [window for rows in found.values() for row in rows for window in (row[0], row[2])]
    result: dict[str, object] = {
        "whole_per_second": round(statistics.median(window.rate for window in whole)),
        "whole_p99_ms": round(statistics.median(window.p99_ms for window in whole), 1),
    }
    for name, rows in found.items():
        result[f"{name}_share"] = round(_share(rows), 3)
        result[f"{name}_p99_times"] = round(_times(rows), 2)
    return result


def enough(found: Found) -> bool:
    """True if every kind of missing node keeps the bars for throughput and latency."""
    return all(
        _share(rows) >= SHARE_MIN and _times(rows) <= LATENCY_TIMES_MAX for rows in found.values()
    )


def _share(rows: Sequence[Windows]) -> float:
    return statistics.median(
        without.rate * 2 / max(before.rate + after.rate, 1.0) for before, without, after in rows
    )


def _times(rows: Sequence[Windows]) -> float:
    return statistics.median(
        without.p99_ms * 2 / (before.p99_ms + after.p99_ms) for before, without, after in rows
    )


async def _window(load: Load, seconds: float) -> Window:
    first = len(load.history)
    began = time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    acked = [op for op in load.history[first:] if op.outcome is Outcome.OK]
    latencies = sorted((op.completed - op.invoked) * 1e3 for op in acked)
    return Window(len(acked) / took, percentile(latencies, 0.99) if latencies else math.inf)


async def _chosen(nodes: Nodes, *, leads: bool) -> str:
    leader = await nodes.leader()
    return leader if leads else next(name for name in nodes.cluster.brokers if name != leader)


async def _served(load: Load, moment: float) -> float:
    return await flowing(load, moment, seconds_max=GAP_SECONDS_MAX, late_seconds=LATE_SECONDS)


async def _caught_up(nodes: Nodes) -> None:
    """Every node runs and has nearly all that the leader has."""
    await nodes.ready()
    async with asyncio.timeout(CAUGHT_UP_SECONDS_MAX):
        while True:  # bounded by the time-out
            ends = [status["last_index"] for status in (await nodes.statuses()).values() if status]
            if len(ends) == len(nodes.cluster.brokers) and max(ends) - min(ends) <= LAG_MAX:
                return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _killed(nodes: Nodes, node: str) -> AsyncIterator[float]:
    """Gone by SIGKILL for as long as the block lasts; gives the moment."""
    moment = time.monotonic()
    await nodes.kill(node)
    yield moment
    await nodes.restart(node)


@asynccontextmanager
async def _paused(nodes: Nodes, node: str) -> AsyncIterator[float]:
    """Stopped by SIGSTOP for as long as the block lasts; gives the moment."""
    moment = time.monotonic()
    await asyncio.to_thread(nodes.cluster.pause, node)
    try:
        yield moment
    finally:
        await asyncio.to_thread(nodes.cluster.resume, node)


Away = Callable[[Nodes, str], AbstractAsyncContextManager[float]]
#: Name → whether the leader is the one who is away, and what is done to it.
AWAY: dict[str, tuple[bool, Away]] = {
    "follower_down": (False, _killed),
    "follower_paused": (False, _paused),
    "leader_down": (True, _killed),
    "leader_paused": (True, _paused),
}


@click.command("missing-node")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="How often.")
@click.option(
    "--seconds", type=click.FloatRange(0.5), default=5.0, show_default=True, help="Of a window."
)
@report_option
def command(rounds: int, seconds: float, output: str) -> None:
    """Throughput with one of three nodes down or paused; exit code 1 below 80 %, or for a loss."""
    folder = Path(tempfile.mkdtemp(prefix="dledger-missing-node-"))
    report(asyncio.run(run(Options(folder / "cluster", rounds, seconds))), folder, output)
