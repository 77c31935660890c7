"""`dledger bench failover`: kills under load, many times; counts lost messages and measures the
silence.

    --kills N         SIGKILL the leader, wait for the next acknowledgement, start it again
    --all --kills N   SIGKILL all nodes at once, start them all again
    --hang --kills N  the leader's syncs hang (chaos/drivers/shim.c); another must lead meanwhile
    --peers           beside RocketMQ's DLedger and controller modes, with its Java client, as one
                      table; a minute and a half for each kill of each (scripts/bench failover)

A gap is the longest time without an acknowledgement around one kill. At the end everything is
stopped and the log of every replica is read from its files and judged.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

import cluster
from chaos.bench.under_load import FLOWING_SECONDS, SETTINGS, flowing, judged, report, sending
from chaos.drivers import shim
from chaos.drivers.shim import Mode, Shims
from chaos.live.gaps import gap_after
from chaos.live.load import Load
from chaos.live.nodes import Nodes
from cluster.commands.output import report_option
from cluster.local import plan
from cluster.local.launcher import LocalCluster

TOPIC = "failover"
# Builds RocketMQ and runs it beside ours: a part of the tests, so not of an installed package.
PEERS = Path(__file__).parents[2] / "scripts" / "bench"
# Between a node's return and the next kill: never two of three nodes behind at the same time.
PAUSE_SECONDS = (0.2, 0.6)
GAP_SECONDS_MAX = 20.0
HANG_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the bench; `root` must not hold a cluster."""

    root: Path
    kills: int = 10
    all_at_once: bool = False
    hang_seconds: float = 0.0
    rate: int = 1000
    seed: int = 0
    hosts: Sequence[str] = ()
    settings: dict[str, str] = field(default_factory=dict)


def run(options: Options) -> dict[str, object]:
    """Run it and return one object; blocks."""
    return asyncio.run(run_async(options))


async def run_async(options: Options) -> dict[str, object]:
    """Run the kills on a cluster of its own, judge the logs; the figures by the names that are
    printed.
    """
    began = time.monotonic()
    members = plan.plan(3, options.hosts or plan.scratch_hosts(3))
    made = LocalCluster.create(options.root, members, SETTINGS | options.settings, tied=True)
    shims = _shims(made) if options.hang_seconds else None
    gaps: list[float] = []
    moved: list[float] = []
    async with Nodes(made) as nodes, cluster.connect(made.nameserver) as client:
        async with sending(client, TOPIC, options.rate) as load:
            await _flowing(load, time.monotonic())
            chance = random.Random(options.seed)
            for _ in range(options.kills):
                await asyncio.sleep(chance.uniform(*PAUSE_SECONDS))
                if shims is not None:
                    moved.append(await _hang_leader(nodes, load, shims, options.hang_seconds, gaps))
                    continue
                kill = _kill_all if options.all_at_once else _kill_leader
                gaps.append(await kill(nodes, load))
        await nodes.settled()
    found = await judged(load, made, TOPIC, gaps, began)
    said = {"moved_max_ms": round(max(moved) * 1e3, 1)} if moved else {}
    return {"kills": options.kills, "all_at_once": options.all_at_once, **found, **said}


async def _flowing(load: Load, moment: float) -> float:
    return await flowing(load, moment, seconds_max=GAP_SECONDS_MAX, late_seconds=FLOWING_SECONDS)


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


def _shims(made: LocalCluster) -> Shims:
    """Below every node's data folder. Raises OSError where none can be built."""
    if reason := shim.why_not():
        raise OSError(f"the syncs of a node cannot be made to hang here: it {reason}")
    data = {name: made.folder(name) / "data" for name in made.brokers}
    shims = Shims(made.root / "shims", data)
    for name in made.brokers:
        made.environment[name] = shims.environment(name)
    return shims


async def _hang_leader(
    nodes: Nodes, load: Load, shims: Shims, seconds: float, gaps: list[float]
) -> float:
    """Until another node leads and has acknowledged; `gaps` gets the longest silence meanwhile."""
    leader = await nodes.leader()
    moment = time.monotonic()
    with shims[leader].faulty(sync=Mode.HANG):
        await nodes.leader(other_than=leader, seconds_max=GAP_SECONDS_MAX)
        moved = await _next_acknowledged(load) - moment
        await asyncio.sleep(max(0.0, moment + seconds - time.monotonic()))
        gaps.append(gap_after(load.acknowledged_at, moment, time.monotonic()))
    await nodes.ready()
    return moved


async def _next_acknowledged(load: Load) -> float:
    """When something is acknowledged from now on. Raises TimeoutError."""
    before = len(load.acknowledged_at)
    async with asyncio.timeout(GAP_SECONDS_MAX):
        while True:  # bounded by the time-out
            if len(load.acknowledged_at) > before:
                return load.acknowledged_at[before]
            await asyncio.sleep(0.01)


def beside_peers(kills: int, script: Path = PEERS) -> int:
    """Run `scripts/bench failover` of this checkout, which builds RocketMQ; returns its exit code.

    Raises click.ClickException where the package is installed without its checkout.
    """
    if not script.exists():
        raise click.ClickException(
            "RocketMQ is built by a script of the checkout, and this package was installed "
            "without one; clone the project and run scripts/bench failover there"
        )
    return subprocess.run([str(script), "failover", f"kills={kills}"], check=False).returncode


@click.command("failover")
@click.option("--kills", type=click.IntRange(1), default=10, show_default=True, help="How often.")
@click.option("--all", "all_at_once", is_flag=True, help="Kill all nodes at once.")
@click.option("--hang", is_flag=True, help=f"Hang the leader's syncs for {HANG_SECONDS:g} s.")
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Messages/s.")
@click.option("--seed", type=int, default=0, show_default=True, help="Repeat a run's moments.")
@click.option(
    "--peers", is_flag=True, help="Beside RocketMQ's modes, with its Java client; from a checkout."
)
@report_option
def command(
    kills: int, all_at_once: bool, hang: bool, peers: bool, rate: int, seed: int, output: str
) -> None:
    """SIGKILL the leader, or all nodes, or hang its disk, under load; exit code 1 for a loss."""
    if peers:
        if all_at_once or hang or output != "text":
            raise click.UsageError("--peers prints one table of killed leaders; leave out the rest")
        raise SystemExit(beside_peers(kills))
    folder = Path(tempfile.mkdtemp(prefix="dledger-failover-"))
    seconds = HANG_SECONDS if hang else 0.0
    result = run(Options(folder / "cluster", kills, all_at_once, seconds, rate, seed))
    report(result, folder, output)
