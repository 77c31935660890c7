"""Courses of faults that the baseline goes through while writers write (docs/spec/chaos.md 5.4).

    power-all     every node loses power at once      journals are never synced
    kill-all      SIGKILL of every process            the page cache survives: a control
    partition     the leader is cut off, later heals  no check quorum for 30 s, late replies
    replay        the leader hangs, an old append of its arrives once more at the followers, all
                  processes die, it comes back last   what follows prevLogIdx is deleted unasked

Each returns what it saw of its effect, "" for none.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random

from chaos.baseline.nodes import Node, Nodes, NotAnswering
from chaos.baseline.writers import WRITERS, Writers

LEADER_SECONDS_MAX = 15.0
ACKED_BEFORE, ACKED_UNSYNCED, ACKED_AFTER = 40, 60, 40


@dataclass(slots=True)
class Scene:
    """The parts of a run that a course may touch."""

    nodes: Nodes
    writers: Writers
    random: Random


async def leader_of(nodes: Nodes) -> Node:
    """The node that says that it leads in the highest term. Raises NotAnswering."""
    end = asyncio.get_running_loop().time() + LEADER_SECONDS_MAX
    while asyncio.get_running_loop().time() < end:
        leaders = []
        for node in nodes.nodes:
            if node.process is None:
                continue
            try:
                said = json.loads(await nodes.ask(node, "status"))
            except NotAnswering:
                continue
            if said["leads"]:
                leaders.append((said["term"], node.name, node))
        if leaders:
            return max(leaders)[2]
        await asyncio.sleep(0.1)
    raise NotAnswering(f"nobody leads after {LEADER_SECONDS_MAX:g} s")


async def power_all(scene: Scene) -> str:
    """Synced once by the kernel, then loaded, then dark."""
    await scene.nodes.sync()
    await scene.writers.until_acked(ACKED_UNSYNCED + scene.random.randrange(20))
    acked = scene.writers.acked
    await scene.nodes.cut_power()
    await scene.nodes.start(scene.nodes.nodes)
    kind = "real" if scene.nodes.real_power else "modelled"
    return f"{kind} power cut of all nodes after {acked} acknowledgements"


async def kill_all(scene: Scene) -> str:
    """SIGKILL all processes after 20 to 59 more acknowledgements, and start them again."""
    await scene.writers.until_acked(scene.random.randrange(20, 60))
    await scene.nodes.kill(scene.nodes.nodes)
    await scene.nodes.start(scene.nodes.nodes)
    return "every process was killed and started again"


async def partition(scene: Scene) -> str:
    """Blocks all messages between the leader and the others for a while."""
    leader = await leader_of(scene.nodes)
    others = [node for node in scene.nodes.nodes if node is not leader]
    await scene.nodes.ask(leader, "cut " + ",".join(node.address for node in others))
    for node in others:
        await scene.nodes.ask(node, f"cut {leader.address}")
    await asyncio.sleep(scene.random.uniform(2.0, 4.0))
    for node in scene.nodes.nodes:
        await scene.nodes.ask(node, "cut")
    lost = json.loads(await scene.nodes.ask(leader, "status"))["lost"]
    return f"{leader.name} led and lost {lost} messages" if lost else ""


async def replay(scene: Scene) -> str:
    """A late duplicate of a shorter append, as an old connection may deliver it, then a crash.

    The followers crash too, which alone loses nothing (kill-all): in memory they may still have
    what they deleted from their journals.
    """
    # A writer has one append at a time: so many are at least five frames.
    await scene.writers.until_acked(4 * WRITERS)
    leader = await leader_of(scene.nodes)
    others = [node for node in scene.nodes.nodes if node is not leader]
    back = scene.random.randrange(1, 4)
    leader.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(0.05)
        told = [int(await scene.nodes.ask(node, f"again {back}")) for node in others]
    finally:
        await scene.nodes.kill(scene.nodes.nodes)
    await scene.nodes.start(others)
    await leader_of(scene.nodes)
    await asyncio.sleep(0.5)
    await scene.nodes.start([leader])
    if not all(told):
        return ""
    older = f"an append older by {min(told)} committed entries"
    return f"{leader.name} hung; {older} arrived again; all died"


Course = Callable[[Scene], Awaitable[str]]

COURSES: Mapping[str, Course] = {
    "power-all": power_all,
    "kill-all": kill_all,
    "partition": partition,
    "replay": replay,
}
