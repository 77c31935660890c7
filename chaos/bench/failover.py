"""`dledger bench failover`: kill under load, many times; what was lost, how long was the silence.

    --kills N         SIGKILL the leader, wait for the next acknowledgement, start it again
    --all --kills N   SIGKILL all nodes at once, start them all again

A gap is the longest time without an acknowledgement around one kill. The load is steady and light,
so the gap measures detection, election and the client's search, not a queue. At the end everything
is stopped and the log of every replica is read from its files and judged.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

import cluster
from chaos.checkers.verdict import Word, judge
from chaos.live.gaps import gap_after
from chaos.live.load import Body, Load
from chaos.live.nodes import Nodes
from chaos.live.replicas import read_all
from cluster.bench.disk import percentile
from cluster.commands.output import to_json
from cluster.local import plan
from cluster.local.launcher import LocalCluster

TOPIC = "failover"
WORKERS = 32
# A body that is easy to find in a hex dump and makes records of some hundred bytes.
BODY_SIZE = 200
# Between a node's return and the next kill: never two of three nodes behind at the same time.
PAUSE_SECONDS = (0.2, 0.6)
# Acknowledgements must flow for so long before a gap counts as over.
FLOWING_SECONDS = 0.15
GAP_SECONDS_MAX = 20.0
SETTINGS = {"raft.data_file_size": str(64 << 20), "raft.index_file_size": str(16 << 20)}


@dataclass(frozen=True, slots=True)
class Options:
    """What to do; `root` must not hold a cluster."""

    root: Path
    kills: int = 10
    all_at_once: bool = False
    rate: int = 1000
    seed: int = 0
    hosts: Sequence[str] = ()
    settings: dict[str, str] = field(default_factory=dict)


def run(options: Options) -> dict[str, object]:
    """Run it and return one object; blocks."""
    return asyncio.run(run_async(options))


async def run_async(options: Options) -> dict[str, object]:
    began = time.monotonic()
    members = plan.plan(3, options.hosts or plan.scratch_hosts(3))
    made = LocalCluster.create(options.root, members, SETTINGS | options.settings, tied=True)
    gaps: list[float] = []
    async with Nodes(made) as nodes, cluster.connect(made.nameserver) as client:
        await client.admin().create_topic(TOPIC)
        load = Load(client, TOPIC, workers=WORKERS, pause=WORKERS / options.rate)
        sending = asyncio.ensure_future(load.run(_bodies))
        try:
            await _flowing(load, time.monotonic())
            chance = random.Random(options.seed)
            for _ in range(options.kills):
                await asyncio.sleep(chance.uniform(*PAUSE_SECONDS))
                kill = _kill_all if options.all_at_once else _kill_leader
                gaps.append(await kill(nodes, load))
        finally:
            load.stop()
            await asyncio.gather(sending, return_exceptions=True)
        sending.result()
        await nodes.settled()
    verdict = judge(load.history, await asyncio.to_thread(read_all, made, TOPIC))
    ordered = sorted(gap * 1e3 for gap in gaps)
    return {
        "kills": options.kills,
        "all_at_once": options.all_at_once,
        "sent": load.sent,
        "acked": verdict.acked,
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "reordered": verdict.reordered,
        "gap_p50_ms": round(percentile(ordered, 0.5), 1),
        "gap_p99_ms": round(percentile(ordered, 0.99), 1),
        "gap_max_ms": round(ordered[-1], 1),
        "seconds": round(time.monotonic() - began, 1),
        "passed": verdict.word is Word.VALID,
        "anomalies": [f"{anomaly.name}: {anomaly.detail}" for anomaly in verdict.anomalies[:20]],
    }


async def _kill_leader(nodes: Nodes, load: Load) -> float:
    leader = await nodes.leader()
    moment = time.monotonic()
    await nodes.kill(leader)
    gap = await _flowing(load, moment)
    await nodes.restart(leader)
    await nodes.ready()
    return gap


async def _kill_all(nodes: Nodes, load: Load) -> float:
    moment = time.monotonic()
    await nodes.kill_all()
    for node in nodes.cluster.brokers:
        await nodes.restart(node)
    await nodes.ready()
    return await _flowing(load, moment)


async def _flowing(load: Load, moment: float) -> float:
    """Wait until acknowledgements flow again after `moment`; the longest gap around it.

    Raises TimeoutError when they do not.
    """
    async with asyncio.timeout(GAP_SECONDS_MAX):
        while True:  # bounded by the time-out
            now = time.monotonic()
            acked = load.acknowledged_at
            # Answers that were under way when the leader died still arrive: they end no gap.
            late = acked and acked[-1] > max(moment + FLOWING_SECONDS, now - FLOWING_SECONDS / 2)
            if late and gap_after(acked, now - FLOWING_SECONDS, now) < FLOWING_SECONDS:
                return gap_after(acked, moment, now)
            await asyncio.sleep(0.01)


def _bodies(worker: int) -> Iterator[Body]:
    number = 0
    while True:  # ended by Load.stop
        name = f"{worker}-{number}"
        yield name, f"{name} ".encode().ljust(BODY_SIZE, b".")
        number += 1


@click.command("failover")
@click.option("--kills", type=click.IntRange(1), default=10, show_default=True)
@click.option("--all", "all_at_once", is_flag=True, help="Kill all nodes at once.")
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Messages/s.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def command(kills: int, all_at_once: bool, rate: int, seed: int, output: str) -> None:
    """SIGKILL the leader (or all nodes) under load; exit code 1 when anything was lost."""
    folder = Path(tempfile.mkdtemp(prefix="dledger-failover-"))
    result = run(Options(folder / "cluster", kills, all_at_once, rate, seed))
    if result["passed"]:
        shutil.rmtree(folder)
    else:
        result["folder"] = str(folder)
    if output == "json":
        click.echo(to_json(result))
    else:
        for name, value in result.items():
            click.echo(f"{name:12} {value}")
    sys.exit(0 if result["passed"] else 1)
