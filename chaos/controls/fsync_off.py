"""fsync=off on every node, then all lose their power: acknowledged messages must be told lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from chaos.checkers.queues import judge_queues
from chaos.controls.control import Control, Shown
from chaos.controls.unsynced_node import SWITCH
from chaos.drivers import loop_disk
from chaos.drivers.loop_disk import LoopDisks
from chaos.drivers.stage import NotUpAgain, Stage
from chaos.live.arena import Arena
from chaos.live.client_processes import ClientProcesses
from chaos.live.run import TOPIC, equipped, read_replicas
from chaos.live.settings import NODE_SETTINGS
from chaos.workloads import Workload
from cluster.local import plan

NODE_MODULE = "chaos.controls.unsynced_node"
LOAD = Workload(
    queues=1, producers=8, keyed=0, readers=0, registers=0, groups=0, rate=200.0, asks=1.0
)
SYNCED_SECONDS, UNSYNCED_SECONDS, AFTER_SECONDS = 2.0, 1.0, 2.0


async def run(root: Path, seed: int) -> Shown:
    """Raises LauncherError, OSError."""
    arena = Arena(root / "cluster", hosts=plan.scratch_hosts(3), settings=NODE_SETTINGS)
    made = arena.cluster
    with equipped(arena, root, ("power-all",)) as (disks, _):
        assert disks is not None, "why_not said that there are loop disks"
        made.node_module = NODE_MODULE
        async with arena:
            clients = ClientProcesses(made.nameserver, TOPIC, LOAD, seed)
            await clients.start()
            await asyncio.sleep(SYNCED_SECONDS)
            _switch(arena, off=True)
            await asyncio.sleep(UNSYNCED_SECONDS)
            try:
                cuts = await _power_all(arena, disks, seed)
            except NotUpAgain as error:
                await clients.stop()
                return Shown(False, f"not found as a loss: {error}")
            await asyncio.sleep(AFTER_SECONDS)
            await clients.stop()
        _, replicas = await asyncio.to_thread(read_replicas, arena)
    verdict = judge_queues(clients.written.history, replicas)
    names = ", ".join(sorted({anomaly.name for anomaly in verdict.anomalies}))
    seen = f"{cuts}; acknowledged {verdict.acked}, lost {verdict.lost}" + (names and f" ({names})")
    return Shown(verdict.lost > 0, seen)


def _switch(arena: Arena, *, off: bool) -> None:
    for name in arena.cluster.brokers:
        switch = arena.cluster.folder(name) / SWITCH
        if off:
            switch.touch()
        else:
            switch.unlink()


async def _power_all(arena: Arena, disks: LoopDisks, seed: int) -> str:
    """Cut, mount, start with syncs that are syncs again. Raises NotUpAgain."""
    made = arena.cluster
    folders = [made.folder(name) for name in made.brokers]
    cuts = await asyncio.to_thread(disks.cut, made.brokers, folders)
    _switch(arena, off=False)
    stage = Stage(arena, made.brokers, 0.0, Random(seed), disks=disks)
    for node in made.brokers:
        await stage.start(node)
    for node in made.brokers:
        await stage.up_again(node)
    return "; ".join(str(cut) for cut in cuts)


CONTROL = Control(
    "fsync-off",
    "syncs return at once on every node, then all lose their power",
    "lost-write",
    loop_disk.why_not,
    run,
)
