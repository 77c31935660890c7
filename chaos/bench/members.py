"""`dledger bench members`: 3 → 5 → 3 nodes under load, with kills; counts lost messages and
measures the silence.

One round:

    two nodes join        a follower is killed while they catch up, and started again
    five nodes            the leader is killed, and started again
    two nodes go          one of them the leader, which hands over by itself

Names and folders of the nodes that went are forgotten; the next round makes new ones under them,
so after a few rounds no node is one of the first three. At the end the logs are read and judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import cluster
from chaos.bench.under_load import SETTINGS, flowing, judged, report, sending
from chaos.live.nodes import Nodes
from cluster.commands.output import report_option
from cluster.errors import ClusterError
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.node_files import data_folder
from dledger.durable import hard_state
from dledger.durable.double_slot import slots_of

TOPIC = "members"
BROKER = "broker-a"
LARGE, SMALL = 5, 3
STEP_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the bench; `root` must not hold a cluster. `hosts`: name server's and five
    nodes'.
    """

    root: Path
    rounds: int = 3
    rate: int = 1000
    seed: int = 0
    hosts: Sequence[str] = ()


class Run:
    """One run: the cluster, its load, and the longest silence of each step."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.hosts = list(options.hosts or plan.scratch_hosts(LARGE))
        members = plan.plan(SMALL, self.hosts[: SMALL + 1])
        self.cluster = LocalCluster.create(options.root, members, SETTINGS, tied=True)
        self.nodes = Nodes(self.cluster)
        self.random = random.Random(options.seed)
        self.gaps: dict[str, list[float]] = {}

    async def all(self) -> dict[str, object]:
        """Every round; one object."""
        began = time.monotonic()
        async with self.nodes, cluster.connect(self.cluster.nameserver) as client:
            self.admin = client.admin()
            async with sending(client, TOPIC, self.options.rate) as load:
                self.load = load
                await self._flowing(time.monotonic())
                for _ in range(self.options.rounds):
                    await self._round()
            await self.nodes.settled()
        everything = [gap for gaps in self.gaps.values() for gap in gaps]
        worst = {step: round(max(gaps) * 1e3, 1) for step, gaps in self.gaps.items()}
        found = await judged(load, self.cluster, TOPIC, everything, began)
        return {"rounds": self.options.rounds, "gaps_max_ms": worst, **found}

    async def _round(self) -> None:
        names = [f"n{number}" for number in range(LARGE)]
        for name in [name for name in names if name not in self.cluster.brokers]:
            await self._step("join", self._join(name))
        await self._step("kill-leader", self._kill_leader())
        leader = await self.nodes.leader()
        others = [name for name in self.cluster.brokers if name != leader]
        await self._step("remove-leader", self._remove(leader))
        await self._step("remove", self._remove(self.random.choice(others)))

    async def _step(self, name: str, action: Awaitable[None]) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(STEP_SECONDS_MAX):
                await action
        except TimeoutError:
            raise TimeoutError(f"{name} took longer than {STEP_SECONDS_MAX} s") from None
        self.gaps.setdefault(name, []).append(await self._flowing(began))

    async def _join(self, name: str) -> None:
        number = int(name[1:])
        await asyncio.to_thread(self.cluster.add_node, name, self.hosts[1 + number])
        await self._called(name)
        await self._change("add", name)
        if self.random.random() < 0.5:
            leader = await self.nodes.leader()
            running = [node for node in self.cluster.brokers if node not in (leader, name)]
            victim = self.random.choice(running)
            await self.nodes.kill(victim)
            await self.nodes.restart(victim)
        await self._until(lambda rows: rows.get(name) == "voter")
        await self.nodes.ready()

    async def _kill_leader(self) -> None:
        leader = await self.nodes.leader()
        await self.nodes.kill(leader)
        await self._flowing(time.monotonic())
        await self.nodes.restart(leader)
        await self.nodes.ready()

    async def _remove(self, name: str) -> None:
        await self._change("remove", name)
        await self._until(lambda rows: name not in rows)
        await asyncio.to_thread(self.cluster.forget_node, name)

    async def _change(self, kind: str, name: str) -> None:
        """Until it is done: leaders change, and one change waits for another."""
        while True:  # bounded by the step's time-out
            try:
                await self.admin.change_members(BROKER, kind, name)
                return
            except ClusterError:
                if (name in await self._standings()) is (kind == "add"):
                    return
                await asyncio.sleep(0.05)

    async def _called(self, name: str) -> None:
        """Waits until the leader has met this incarnation of the node, not the former one."""
        while True:  # bounded by the step's time-out
            with contextlib.suppress(ClusterError):
                found = await self.admin.members(BROKER)
                met = [(visitor["node"], visitor["incarnation"]) for visitor in found["visitors"]]
                if (name, self._incarnation(name)) in met:
                    return
            await asyncio.sleep(0.05)

    def _incarnation(self, name: str) -> int | None:
        """The incarnation of the node's folder; None before it is formatted."""
        folder = data_folder(self.cluster.root, self.cluster.profile.member(name))
        file = folder / f"dledger-{name}" / hard_state.FILE_NAME
        if not file.exists():
            return None
        data = file.read_bytes()
        slots = slots_of(data)
        newest = max((slot for slot in slots if slot is not None), default=None)
        return None if newest is None else hard_state.decode(newest[1]).incarnation

    async def _until(self, wanted: Callable[[dict[str, str]], bool]) -> None:
        while True:  # bounded by the step's time-out
            if wanted(await self._standings()):
                return
            await asyncio.sleep(0.05)

    async def _standings(self) -> dict[str, str]:
        """Returns each member's standing in the committed configuration; {} while no broker
        answers."""
        try:
            found: dict[str, Any] = await self.admin.members(BROKER)
        except ClusterError:
            return {}
        if not found["committed"]:
            return {}
        return {row["node"]: row["standing"] for row in found["members"]}

    async def _flowing(self, moment: float) -> float:
        return await flowing(self.load, moment, seconds_max=STEP_SECONDS_MAX)


@click.command("members")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="How often.")
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Messages/s.")
@click.option("--seed", type=int, default=0, show_default=True, help="Repeat a run's moments.")
@report_option
def command(rounds: int, rate: int, seed: int, output: str) -> None:
    """3 → 5 → 3 nodes under load, with kills; exit code 1 when anything was lost."""
    folder = Path(tempfile.mkdtemp(prefix="dledger-members-"))
    result = asyncio.run(Run(Options(folder / "cluster", rounds, rate, seed)).all())
    report(result, folder, output)
