"""Every named failpoint × {leader, follower}, one after the other, under load.

Source: docs/spec/chaos.md 6.

    arm ─► load, and where load does not lead there a *provocation* ─► death ─► restart ─► next

    passed under load       writes and syncs of log, index, mark and queues; appends, heartbeats
    sweep, fill             what housekeeping saves, makes and deletes when files are full and old
    rot                     a record is damaged: it is asked for at a peer, which answers
    hand-over               votes: hard state, vote messages, TimeoutNow
    isolate, then heal      a leader that must truncate what it alone had
    leave behind            a follower that is sent a state, a leader that sends it

A point that a role never passes (a follower sends no AppendEntries) is not enumerated (NEVER);
nor is what no load leads to (UNPROVOKED), each with its reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import cluster
from chaos.drivers import filler
from chaos.drivers.hooks import ask, die_at
from chaos.drivers.links import healed
from chaos.drivers.regions import LOG, regions
from chaos.drivers.retention import age, trim_past
from chaos.drivers.stage import POLL_SECONDS, NotUpAgain, Stage
from chaos.live import node_hooks
from chaos.live.arena import Arena
from chaos.live.failpoint_names import NAMES

LEADER, FOLLOWER = "leader", "follower"
LOAD_SECONDS_MAX = 10.0  # a disk that is slow for a moment keeps load from a point that long
PROVOKED_SECONDS_MAX = 6.0
ROLL_SECONDS_MAX = 15.0  # until a file is full; three tries of a leader that is cut off
LEFT_BEHIND_SECONDS_MAX = 60.0  # until the log begins behind the end of a node that is cut off
ISOLATED_SECONDS = 1.2
MENDED_SECONDS_MAX = 30.0
PAUSE_SECONDS = 1.0
#: Passed by any node under load, many times a second or at the next of its regular saves.
LOADED = (
    *("data.", "index.", "flushmark.", "consumequeue.", "keyindex.", "checkpoint."),
    "generations.",
    *("send.Append", "send.Heart", "send.DiskReport"),
)
#: Passed every ten seconds, or when a scrub has come to what is rotten.
SELDOM = ("generations.", "send.Range")
#: Passed when files are full, old, saved or deleted: they are filled, made old, and swept.
FILLED = (
    *("data.create", "data.remove", "data.list", "index.create", "index.remove", "index.list"),
    *("consumequeue.create", "consumequeue.remove", "consumequeue.list", "consumequeue.sync"),
    *("keyindex.", "snapshots.", "logstart.", "logstart-bak.", "state-ckpt.", "dispatched."),
    *("root.", "folder."),
)

#: Points that the enumeration does not lead to, and why not.
UNPROVOKED: dict[str, str] = {
    "configurations.replace": "needs a change of members, which a dead voter of three blocks",
    "index.sync": "comes every 65,536 entries, and at a clean stop",
    "gone.": "needs a log file that has vanished",
    "peers-json.replace": "is written at the first meeting of two folders only",
    "dispatched.remove": "needs queues that do not fit the log",
}
#: Roles that never pass a point, whatever happens.
NEVER: dict[str, tuple[str, ...]] = {
    LEADER: (
        *("send.AppendReply", "send.HeartbeatReply", "send.SnapshotReply"),
        "send.DiskReport",  # followers tell their leader
    ),
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
    for name, role in itertools.product(NAMES, (LEADER, FOLLOWER)):
        if not name.startswith((*NEVER[role], *UNPROVOKED)):
            yield name, role


def sample(count: int, seed: int) -> set[tuple[str, str]]:
    """So many of them, and with them at least one of every file and every message."""
    everything = list(points())
    Random(seed).shuffle(everything)
    chosen: dict[str, tuple[str, str]] = {}
    for point in everything:
        chosen.setdefault(point[0].rpartition(".")[0].partition(".")[0], point)
    sends = [point for point in everything if point[0].startswith("send.")]
    for point in sends:
        chosen.setdefault(point[0].rpartition(".")[0], point)
    some = set(chosen.values())
    rest = [point for point in everything if point not in some]
    return some | set(rest[: max(0, count - len(some))])


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
        if ".create." in name or name.startswith((*SELDOM, "truncate.")):
            limit = ROLL_SECONDS_MAX
        if "Snapshot" in name or name.startswith(FILLED):
            limit = LEFT_BEHIND_SECONDS_MAX
        died = bool(await die_at(stage, name, 0, seconds_max=limit))
    finally:
        provoking.cancel()
        await asyncio.gather(provoking, return_exceptions=True)
        arena.mesh.heal()
    for other in arena.cluster.brokers:
        node_hooks.forget(stage.folder(other))
        await stage.up_again(other)
    if "Range" in name:
        await _repaired(stage)
    return died


async def _repaired(stage: Stage) -> None:
    """Every record that was made rotten is whole again: it is looked for, and comes from a peer.

    Raises NotUpAgain.
    """
    nodes = list(stage.arena.cluster.brokers)
    before = {node: await _passes(stage, node) for node in nodes}
    for node in nodes:
        await ask(stage, node, scrub=True)
        node_hooks.forget(stage.folder(node))
    end = time.monotonic() + MENDED_SECONDS_MAX
    while nodes:
        if time.monotonic() > end:
            raise NotUpAgain(nodes[0], "what was made rotten was not repaired in time")
        await asyncio.sleep(POLL_SECONDS)
        statuses = await stage.arena.statuses()
        for node in list(nodes):
            status = statuses.get(node)
            if status is None or status["repair"]["damaged"]:
                continue
            if status["repair"]["passes"] > before[node]:
                nodes.remove(node)


async def _passes(stage: Stage, node: str) -> int:
    """How many times a node has read its whole log."""
    status = (await stage.arena.statuses()).get(node)
    return int(status["repair"]["passes"]) if status else 0


def _is_passed_by_load(name: str) -> bool:
    return name.startswith(LOADED) and not name.startswith(FILLED)


async def _provoke(stage: Stage, name: str) -> None:
    """Repeats the action that leads to the failpoint `name` until the node has died there."""
    if _is_passed_by_load(name):
        return
    await asyncio.sleep(0.3)  # it is armed by then
    while True:  # until it is cancelled
        if name.startswith("truncate"):
            await _isolate(stage)
        elif "Snapshot" in name:
            await _leave_behind(stage)
        elif name.startswith(FILLED):
            await _fill(stage)
        elif "Range" in name:
            await _rot(stage, name)
        else:
            await _hand_over(stage, name)
        await asyncio.sleep(PAUSE_SECONDS)


async def _fill(stage: Stage) -> None:
    """Fills log files and makes them look old, then asks the leader and the node to save their
    states and delete the files. It does not wait for answers, because the node may die before it
    answers. The followers delete after their leader, so the leader is asked too.
    """
    async with cluster.connect(stage.arena.cluster.nameserver) as client:
        await filler.fill(client)
    for node in {await stage.arena.leader(), stage.node}:
        age(stage, node)
        node_hooks.ask(stage.folder(node), sweep=True)


async def _rot(stage: Stage, name: str) -> None:
    """A flipped bit in a record: its node asks a peer for it. The one to die asks, or is asked."""
    rotten = stage.node if "RangeRequest" in name else stage.others[0]
    found = regions(stage.folder(rotten) / "data")
    log = next(region for region in found if region.kind == LOG)
    at = stage.random.randrange(log.begin, log.end)
    with log.path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    node_hooks.ask(stage.folder(rotten), scrub=True)


async def _hand_over(stage: Stage, name: str) -> None:
    """Asks the current leader to hand leadership to another node, so that the node of the fault
    asks for votes, or receives a request for one.
    """
    leader = await stage.arena.leader()
    others = [node for node in stage.others if node != leader]
    to = stage.node if "VoteRequest" in name and leader != stage.node else others[0]
    node_hooks.ask(stage.folder(leader), transfer=to)


async def _isolate(stage: Stage) -> None:
    """The leader takes messages that it alone will have, and comes back to another term.

    On a busy machine nobody may send within that time: the same node leads again for the next try.
    """
    while (leader := await stage.arena.leader()) != stage.node:
        node_hooks.ask(stage.folder(leader), transfer=stage.node)
        await asyncio.sleep(PAUSE_SECONDS)
    with _away(stage, stage.node):
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
