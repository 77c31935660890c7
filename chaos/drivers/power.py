"""Kinds 6–9: power cuts on the nodes' own disks (loop_disk.py), from the real file system.

power-partial and torn-tail need bytes that are written and not synced. Under load some are, at most
moments; so that it does not rest on luck the node's syncs are held for a moment before the cut, and
a cut that took nothing is made once more.
"""

from __future__ import annotations

import asyncio
import time

from chaos.drivers.hooks import ask
from chaos.drivers.loop_disk import Cut
from chaos.drivers.stage import POLL_SECONDS, Fault, Stage
from chaos.live import node_hooks
from cluster.local import admin

HELD_SECONDS = 3.0  # longer than it takes to cut; shorter than a node needs to call it a stall
PENDING_SECONDS = 0.3  # some messages are written meanwhile
PENDING_SECONDS_MAX = 1.2  # on a busy machine producers may need so long
CUTS_MAX = 3


async def cut(stage: Stage, *, back: float = 0.0, torn: bool = False) -> list[Cut]:
    """Take the power; the nodes are down then."""
    assert stage.disks is not None, "only drawn where there are loop disks"
    folders = [stage.folder(node) for node in stage.nodes]
    gone = stage.notes.get("power_gone")
    began = float(gone[0]) if isinstance(gone, list) else stage.now()  # of several cuts the first
    cuts: list[Cut] = await asyncio.to_thread(
        stage.disks.cut, stage.nodes, folders, back=back, torn=torn, random=stage.random
    )
    notes = stage.notes
    notes["lost_pages"] = int(str(notes.get("lost_pages", 0))) + sum(c.lost_pages for c in cuts)
    notes["cuts"] = int(str(notes.get("cuts", 0))) + len(cuts)
    notes["power_gone"] = [round(began, 3), round(stage.now(), 3)]
    return cuts


async def _restart(stage: Stage) -> None:
    await stage.hold()
    for node in stage.nodes:
        await stage.start(node)


async def hold_syncs(stage: Stage) -> None:
    """From now on the nodes' writes stay in their page caches; waits until there are some."""
    for node in stage.nodes:
        await ask(stage, node, hold_syncs=HELD_SECONDS)
        node_hooks.forget(stage.folder(node))
    await asyncio.sleep(PENDING_SECONDS)
    end = time.monotonic() + PENDING_SECONDS_MAX - PENDING_SECONDS
    while not await _pending(stage):
        if time.monotonic() > end:
            return  # a fault that needs lost bytes notes their absence itself
        await asyncio.sleep(POLL_SECONDS)


async def _pending(stage: Stage) -> bool:
    """Whether each of the nodes that answer has entries that are not on its disk."""
    profile = stage.arena.cluster.profile
    members, token = [profile.member(node) for node in stage.nodes], profile.admin_token
    told = await asyncio.gather(*(asyncio.to_thread(admin.status, one, token) for one in members))
    return all(one["last_index"] > one["flushed_index"] for one in told if one is not None)


async def power_loss(stage: Stage) -> str:
    """Cuts the power of the nodes: un-synced writes are lost. A cut without pending writes counts
    as an effect too, and is recorded."""
    cuts = await cut(stage)
    await _restart(stage)
    return "; ".join(map(str, cuts))


async def power_partial(stage: Stage) -> str:
    """Some of the un-synced pages had been written, in no order."""
    return await _partial(stage, back=stage.random.choice((0.3, 0.7)), torn=False)


async def torn_tail(stage: Stage) -> str:
    """The last page that was written holds the first part of a record only."""
    return await _partial(stage, back=0.3, torn=True)


async def _partial(stage: Stage, *, back: float, torn: bool) -> str:
    """Until a page came back, or was torn; "" when none ever did."""
    for _ in range(CUTS_MAX):
        await hold_syncs(stage)
        cuts = await cut(stage, back=back, torn=torn)
        await _restart(stage)
        if any(one.torn if torn else one.written_back for one in cuts):
            return "; ".join(map(str, cuts))
        for node in stage.nodes:  # it takes part again, so that it has something to write
            await stage.up_again(node)
    return ""


FAULTS: dict[str, Fault] = {
    "power-loss": power_loss,
    "power-all": power_loss,  # the stage names every node
    "power-partial": power_partial,
    "torn-tail": torn_tail,
}
