"""Makes old log files go while a node is away: it has to be sent the state that they led to.

age      log files but the last look as if nobody had written to them for years
sweep    every node does its housekeeping at once instead of within half a minute
fill     large messages of another topic, so that the log passes into its next files
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

import cluster
from chaos.drivers import filler
from chaos.drivers.hooks import ask
from chaos.drivers.stage import Stage
from chaos.live import node_hooks

TRIM_SECONDS_MAX = 40.0
#: So many files later there is enough to delete; what delayed messages still hold goes when they
#: have come, and more would only fill the disk.
FILLS_MAX = 12
SWEEP_SECONDS = 1.0


async def trim_past(stage: Stage, away: str) -> int:
    """Until the leader's log begins behind all that `away` can have; its first entry then.

    0 when it did not come so far in time. `away` is down, or is cut off.
    """
    end = time.monotonic() + TRIM_SECONDS_MAX
    last = await _told(stage, await stage.arena.leader(), "last_index")
    working = [node for node in stage.nodes if node != away]
    async with cluster.connect(stage.arena.cluster.nameserver) as client:
        fills = 0
        while time.monotonic() < end:
            if fills < FILLS_MAX:
                await filler.fill(client)
            else:
                await asyncio.sleep(SWEEP_SECONDS)
            fills += 1
            await _sweep(stage, working)
            first = await first_index(stage, await stage.arena.leader())
            if first > last:
                await _sweep(stage, working)  # queues forget what was deleted at the next save
                return first
    return 0


async def first_index(stage: Stage, node: str) -> int:
    """The first entry that a node's log has; 0 when it does not answer."""
    return await _told(stage, node, "first_index")


async def _told(stage: Stage, node: str, name: str) -> int:
    status = (await stage.arena.statuses()).get(node)
    return int(status[name]) if status else 0


async def _sweep(stage: Stage, nodes: Sequence[str]) -> None:
    for node in nodes:
        age(stage, node)
    if stage.clients is not None:  # files are kept for days where nobody makes them old
        await stage.clients.read_up()
    for node in nodes:
        await ask(stage, node, sweep=True)
        node_hooks.forget(stage.folder(node))


def age(stage: Stage, node: str) -> None:
    """All log files of a node but the last look old."""
    files = sorted((stage.folder(node) / "data" / f"dledger-{node}" / "data").iterdir())
    for path in files[:-1]:
        os.utime(path, (0, 0))
