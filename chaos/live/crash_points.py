"""Every named failpoint × {leader, follower}, one after the other, under load (chaos.md 6).

    arm ─► load, and where load does not lead there a *provocation* ─► death ─► restart ─► next

    passed under load       writes and syncs of log, index, mark and queues; appends, heartbeats
    hand-over               votes: hard state, vote messages, TimeoutNow
    isolate, then heal      a leader that must truncate what it alone had
    leave behind            a follower that is sent a state, a leader that sends it
    restart                 nothing else reads or makes some files again

A point that a role never passes (a follower sends no AppendEntries) is named and not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from chaos.drivers.hooks import die_at
from chaos.drivers.links import healed
from chaos.drivers.retention import trim_past
from chaos.drivers.stage import Stage
from chaos.live import failpoints, node_hooks
from chaos.live.arena import Arena

LEADER, FOLLOWER = "leader", "follower"
LOAD_SECONDS_MAX = 10.0  # a disk that is slow for a moment keeps load from a point that long
PROVOKED_SECONDS_MAX = 6.0
ROLL_SECONDS_MAX = 15.0  # until a file is full
LEFT_BEHIND_SECONDS_MAX = 60.0  # until the log begins behind the end of a node that is cut off
ISOLATED_SECONDS = 1.2

#: Roles that never pass a point, whatever happens.
NEVER: dict[str, tuple[str, ...]] = {
    LEADER: ("send.AppendReply", "send.HeartbeatReply", "send.SnapshotReply"),
    FOLLOWER: (
        *("send.AppendEntries", "send.Heartbeat.", "send.TimeoutNow", "send.SnapshotChunk"),
        "truncate.",  # what a follower has, a leader sent; only one that led truncates here
    ),
}


@dataclass(frozen=True, slots=True)
class Point:
    """One failpoint in one role; `died` says whether it was reached and killed the node."""

    name: str
    role: str
    died: bool


def points() -> Iterator[tuple[str, str]]:
    """(name, role) of everything that can be passed."""
    for name, role in itertools.product(failpoints.NAMES, (LEADER, FOLLOWER)):
        if not name.startswith(NEVER[role]):
            yield name, role


async def enumerate_points(
    arena: Arena, wanted: Callable[[str, str], bool] = lambda name, role: True
) -> list[Point]:
    """Die at each of them once. Raises NotUpAgain."""
    found = []
    for name, role in points():
        if wanted(name, role):
            found.append(Point(name, role, await _die(arena, name, role)))
    return found


async def _die(arena: Arena, name: str, role: str) -> bool:
    leader = await arena.leader()
    node = leader if role == LEADER else next(n for n in arena.cluster.brokers if n != leader)
    stage = Stage(arena, [node], 0.0, Random(name))
    provoking = asyncio.ensure_future(_provoke(stage, name))
    try:
        limit = LOAD_SECONDS_MAX if _is_passed_by_load(name) else PROVOKED_SECONDS_MAX
        if ".create." in name:
            limit = ROLL_SECONDS_MAX
        if "Snapshot" in name:
            limit = LEFT_BEHIND_SECONDS_MAX
        died = bool(await die_at(stage, name, 0, seconds_max=limit))
    finally:
        provoking.cancel()
        await asyncio.gather(provoking, return_exceptions=True)
        arena.mesh.heal()
    for other in arena.cluster.brokers:
        node_hooks.forget(stage.folder(other))
        await stage.up_again(other)
    return died


def _is_passed_by_load(name: str) -> bool:
    return name.startswith(("data.", "index.", "flushmark.", "queue.", "send.Append", "send.Heart"))


async def _provoke(stage: Stage, name: str) -> None:
    """Do what leads there, again and again until the node has died."""
    if _is_passed_by_load(name):
        return
    await asyncio.sleep(0.3)  # it is armed by then
    while True:  # until it is cancelled
        if name.startswith("truncate"):
            await _isolate(stage, stage.node)
        elif "Snapshot" in name:
            await _leave_behind(stage)
        else:
            await _hand_over(stage, name)
        await asyncio.sleep(1.0)


async def _hand_over(stage: Stage, name: str) -> None:
    """Whoever leads now is asked to let another node lead: the one to die asks for votes, or has
    one to give.
    """
    leader = await stage.arena.leader()
    others = [node for node in stage.others if node != leader]
    to = stage.node if "VoteRequest" in name and leader != stage.node else others[0]
    node_hooks.ask(stage.folder(leader), transfer=to)


async def _isolate(stage: Stage, node: str) -> None:
    """The leader takes messages that it alone will have, and comes back to another term."""
    with _away(stage, node):
        await asyncio.sleep(ISOLATED_SECONDS)


async def _leave_behind(stage: Stage) -> None:
    """A follower comes back to a log that begins behind its end."""
    leader = await stage.arena.leader()
    away = stage.node if stage.node != leader else stage.others[0]
    with _away(stage, away):
        await trim_past(replace(stage, nodes=stage.arena.cluster.brokers), away)
    await asyncio.sleep(ISOLATED_SECONDS)


@contextlib.contextmanager
def _away(stage: Stage, node: str) -> Iterator[None]:
    """None of its peers reaches it."""
    links = [
        link
        for kind_and_name, link in stage.arena.mesh.links.items()
        if kind_and_name.startswith("peer") and node in {link.source, link.target}
    ]
    with healed(links):
        for link in links:
            link.drop()
        yield
