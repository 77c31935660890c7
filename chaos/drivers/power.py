"""Kinds 6–9: power cuts on the nodes' own disks (loop_disk.py), from the real file system."""

from __future__ import annotations

import asyncio

from chaos.drivers.loop_disk import Cut
from chaos.drivers.stage import Fault, Stage


async def _cut(stage: Stage, *, back: float = 0.0, torn: bool = False) -> str:
    assert stage.disks is not None, "only drawn where there are loop disks"
    folders = [stage.folder(node) for node in stage.nodes]
    began = stage.now()
    cuts: list[Cut] = await asyncio.to_thread(
        stage.disks.cut, stage.nodes, folders, back=back, torn=torn, random=stage.random
    )
    stage.notes["lost_pages"] = sum(cut.lost_pages for cut in cuts)
    stage.notes["cuts"] = len(cuts)
    stage.notes["power_gone"] = [round(began, 3), round(stage.now(), 3)]
    await stage.hold()
    for node in stage.nodes:
        await stage.start(node)
    return "; ".join(str(cut) for cut in cuts)


async def power_loss(stage: Stage) -> str:
    """What was not synced is gone. That nothing was pending is an effect, too: it is recorded."""
    return await _cut(stage)


async def power_partial(stage: Stage) -> str:
    """Some of the un-synced pages had been written, in no order."""
    return await _cut(stage, back=stage.random.choice((0.3, 0.7)))


async def torn_tail(stage: Stage) -> str:
    """The last page that was written holds the first part of a record only."""
    return await _cut(stage, back=0.3, torn=True)


FAULTS: dict[str, Fault] = {
    "power-loss": power_loss,
    "power-all": power_loss,  # the stage names every node
    "power-partial": power_partial,
    "torn-tail": torn_tail,
}
