"""Courses of faults that broke real systems, by name (chaos.md 3.2): several nodes, several faults.

Each takes the whole cluster for itself, chooses its nodes by role, and returns what it saw of every
step; "" when one of them did not happen.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from chaos.drivers import file_damage, links, members, processes, retention
from chaos.drivers.hooks import ask
from chaos.drivers.power import FAULTS as POWER
from chaos.drivers.shim import Mode
from chaos.drivers.stage import POLL_SECONDS, Fault, Stage
from chaos.live import failpoints, node_hooks
from cluster.local import processes as local_processes

ELECTION_SECONDS_MAX = 0.6
LOAD_SECONDS = (
    2.0  # acknowledged on a majority meanwhile; 30 s in the recipe, at a thousandth of it
)
LEADER_SECONDS_MAX = 25.0  # a node starts meanwhile, on a machine that may be busy
FLAPS = 3
HAND_OVER_SECONDS = 1.0
#: Where one dies that is sent a state: before and after it answers, while its log begins anew.
WHILE_SENT_STATE = (
    *("send.SnapshotReply.before", "send.SnapshotReply.after"),
    *("flushmark.write.before", "flushmark.write.torn", "flushmark.sync.after"),
)
UNSYNCED_SECONDS = 0.5  # acknowledged in memory meanwhile; less than a hung disk costs the lead


def _on(stage: Stage, node: str, seconds: float) -> Stage:
    return replace(stage, nodes=[node], seconds=seconds)


async def _roles(stage: Stage) -> tuple[str, list[str]]:
    """The leader and its followers, in an order drawn from the seed."""
    leader = await stage.arena.leader()
    followers = [node for node in stage.nodes if node != leader]
    stage.random.shuffle(followers)
    return leader, followers


async def _all_back(stage: Stage) -> None:
    for node in stage.nodes:
        await stage.up_again(node)


async def one_edge_cut(stage: Stage) -> str:
    """Three nodes, the leader and one follower do not see each other: no endless elections."""
    _, followers = await _roles(stage)
    return await links.ring(replace(stage, nodes=[followers[0]], seconds=5 * ELECTION_SECONDS_MAX))


async def old_leader_returns_with_queue(stage: Stage) -> str:
    """What the leader says is held for three election timeouts, then all of it arrives."""
    leader, _ = await _roles(stage)
    outward = [
        link
        for name, link in stage.arena.mesh.links.items()
        if name.startswith("peer") and link.source == leader
    ]
    with links.healed(outward) as seen:
        for link in outward:
            link.freeze(backward=False)
        await asyncio.sleep(3 * ELECTION_SECONDS_MAX)
        successor = await stage.arena.leader(other_than=leader, seconds_max=LEADER_SECONDS_MAX)
        held = seen.tell("held bytes")
    return held and f"{successor} led while {leader} was held; {held}"


async def disk_hang_leader(stage: Stage) -> str:
    """The leader's disk hangs while its heartbeats could go on: another leads, nothing stops.

    Until it does, both followers have on disk what is acknowledged.
    """
    assert stage.shims is not None, "only where the shim can be built"
    leader, _ = await _roles(stage)
    shim = stage.shims[leader]
    hits, before = shim.hits()[1], await _committed(stage)
    with shim.faulty(sync=Mode.HANG):
        successor = await stage.arena.leader(other_than=leader, seconds_max=LEADER_SECONDS_MAX)
        await asyncio.sleep(LOAD_SECONDS)
        hung, committed = shim.hits()[1] - hits, await _committed(stage) - before
    if not hung or committed <= 0:
        return ""
    return (
        f"{hung} syncs of {leader} hung, {successor} led; {committed} entries were committed "
        "meanwhile"
    )


async def _committed(stage: Stage) -> int:
    """The highest index that any node knows to be committed."""
    found = await stage.arena.statuses()
    return max((int(s["committed_index"]) for s in found.values() if s), default=-1)


async def power_all_under_load(stage: Stage) -> str:
    """Every node loses its power in the middle of writes."""
    return await POWER["power-all"](replace(stage, seconds=0.1))


async def power_all_before_the_sync(stage: Stage) -> str:
    """All syncs hang, then all power goes: only what was acknowledged in memory may go."""
    assert stage.shims is not None, "only where the shim can be built"
    shims = [stage.shims[node] for node in stage.nodes]
    before = [shim.hits()[1] for shim in shims]
    with contextlib.ExitStack() as hanging:
        for shim in shims:
            hanging.enter_context(shim.faulty(sync=Mode.HANG))
        hung = await stage.until(
            lambda: all(shim.hits()[1] > hits for shim, hits in zip(shims, before, strict=True)),
            LEADER_SECONDS_MAX,
        )
        await asyncio.sleep(UNSYNCED_SECONDS)
        told = await POWER["power-all"](replace(stage, seconds=0.0))
    return f"syncs of all nodes hung for {UNSYNCED_SECONDS:g} s; {told}" if hung else ""


async def rolling_restart_under_load(stage: Stage) -> str:
    """One after the other, the next when the one before has caught up."""
    told = []
    for node in stage.nodes:
        told.append(await processes.stop(_on(stage, node, 0.1)))
        await stage.up_again(node)
    return "; ".join(told) if all(told) else ""


async def vote_then_power_loss(stage: Stage) -> str:
    """A node grants a vote, loses its power at once, and is asked again: the vote must stand."""
    assert stage.disks is not None, "only where there are loop disks"
    _, (voter, *_) = await _roles(stage)
    folder = stage.folder(voter)
    hit = folder / failpoints.HIT_FILE
    hit.unlink(missing_ok=True)
    try:
        await ask(stage, voter, failpoint={"name": "send.VoteReply.after", "after": 0})
        candidate = await _elect(stage, voter, lambda: hit.exists() and not stage.running(voter))
    finally:
        node_hooks.forget(folder)
    told = await POWER["power-loss"](_on(stage, voter, 0.0))
    await stage.up_again(voter)
    await _hand_over(stage, await stage.arena.leader(), "")
    return f"{voter} died after it voted for {candidate}; {told}" if candidate else ""


async def _elect(stage: Stage, voter: str, voted: Callable[[], bool]) -> str:
    """Ask for hand-overs until `voter` was asked for its vote; who stood, "" for nobody in time.

    One try is not enough: who leads may have stepped down meanwhile, and nobody is handed the lead
    who is behind, as one that was hidden a moment ago is.
    """
    end = time.monotonic() + LEADER_SECONDS_MAX
    while time.monotonic() < end:
        leader = await stage.arena.leader(seconds_max=LEADER_SECONDS_MAX)
        candidate = stage.random.choice([n for n in stage.nodes if n not in (voter, leader)])
        await _hand_over(stage, leader, candidate)
        if await stage.until(voted, HAND_OVER_SECONDS):
            return candidate
    return ""


async def _hand_over(stage: Stage, leader: str, to: str) -> None:
    await ask(stage, leader, transfer=to)
    node_hooks.forget(stage.folder(leader))


async def snapshot_while_partitioned(stage: Stage) -> str:
    """The log's beginning passes a follower that is cut off: healed, it is sent the state."""
    _, (hidden, *_) = await _roles(stage)
    with _cut_off(stage, hidden) as seen:
        first = await retention.trim_past(stage, hidden)
        dropped = seen.tell("dropped bytes")
    return await _joined(stage, hidden, first) if first and dropped else ""


async def far_behind_joins_by_state(stage: Stage) -> str:
    """The same for one that was down; what it had on its disk is no part of the log any more."""
    _, (down, *_) = await _roles(stage)
    await stage.kill([down])
    first = await retention.trim_past(stage, down)
    await stage.start(down)
    await stage.up_again(down)
    return await _joined(stage, down, first) if first else ""


async def killed_while_sent_state(stage: Stage) -> str:
    """A follower dies between its first word about a state and its log's new beginning."""
    _, (victim, *_) = await _roles(stage)
    point = stage.random.choice(WHILE_SENT_STATE)
    folder = stage.folder(victim)
    hit = folder / failpoints.HIT_FILE
    hit.unlink(missing_ok=True)
    with _cut_off(stage, victim) as seen:
        first = await retention.trim_past(stage, victim)
        armed = await ask(stage, victim, failpoint={"name": point, "after": 0})
        dropped = seen.tell("dropped bytes")
    died = bool(armed) and await stage.until(
        lambda: hit.exists() and not stage.running(victim), LEADER_SECONDS_MAX
    )
    node_hooks.forget(folder)
    await stage.up_again(victim)
    if not (first and dropped and died):
        return ""
    joined = await _joined(stage, victim, first)
    return joined and f"{victim} died at {point}; {joined}"


async def _joined(stage: Stage, node: str, first: int) -> str:
    """Wait until a node has got past what no log has any more, which only a state can do."""
    end, began = time.monotonic() + LEADER_SECONDS_MAX, time.monotonic()
    while (begins := await retention.first_index(stage, node)) < first:
        if time.monotonic() > end:
            return ""
        await asyncio.sleep(POLL_SECONDS)
    took = time.monotonic() - began
    return f"logs began at entry {first}, behind the end of {node}; {took:.2f} s later at {begins}"


async def remove_partitioned_member(stage: Stage) -> str:
    """A member that cannot hear it is removed; back again it disturbs nobody, and is taken in."""
    _, (gone, *_) = await _roles(stage)
    async with members.membership_of(_on(stage, gone, 0.0)) as member:
        with _cut_off(stage, gone) as seen:
            left = await member.remove()
            await asyncio.sleep(LOAD_SECONDS)
            dropped = seen.tell("dropped bytes")
        leader, before = await stage.arena.leader(), await _committed(stage)
        await asyncio.sleep(3 * ELECTION_SECONDS_MAX)
        stayed = await stage.arena.leader() == leader and await _committed(stage) > before
        took = await member.add()
    if not dropped or not stayed:
        return ""
    return f"{gone} left {left} members unheard, {dropped}; votes again {took:.2f} s after it asked"


async def leader_flap_figure_8(stage: Stage) -> str:
    """Leaders die in turn, right after each could reach one follower only (Raft, figure 8)."""
    told = []
    for _ in range(FLAPS):
        leader, (spared, *others) = await _roles(stage)
        cut = [
            link
            for link in stage.arena.mesh.of(leader)
            if any(other in {link.source, link.target} for other in others)
        ]
        with links.healed(cut) as seen:
            for link in cut:
                link.drop()
            await asyncio.sleep(0.15)
            await stage.kill([leader])
            dropped = seen.tell("dropped bytes")
        await stage.start(leader)
        await _all_back(stage)
        told.append(dropped and f"{leader} died, {spared} had heard it")
    return "; ".join(told) if all(told) else ""


async def bitrot_minority_then_lead(stage: Stage) -> str:
    """A follower's committed entries rot, then it is asked to lead: never silence about it."""
    _, (rotten, *_) = await _roles(stage)
    one = _on(stage, rotten, LOAD_SECONDS)

    async def push() -> None:
        leader = await stage.arena.leader()
        if stage.running(rotten) and leader != rotten:
            await ask(stage, leader, transfer=rotten)
            node_hooks.forget(stage.folder(leader))

    return await file_damage.rotten_log(one, push)


@contextlib.contextmanager
def _paused(stage: Stage, node: str) -> Iterator[None]:
    local_processes.send(stage.folder(node), signal.SIGSTOP)
    try:
        yield
    finally:
        local_processes.send(stage.folder(node), signal.SIGCONT)


@contextlib.contextmanager
def _cut_off(stage: Stage, node: str) -> Iterator[links.Seen]:
    chosen = list(stage.arena.mesh.of(node))
    with links.healed(chosen) as seen:
        for link in chosen:
            link.drop()
        yield seen


async def _amnesia(stage: Stage, *, pause: bool) -> str:
    """Hide A; B and C acknowledge; hide B; C loses its power; A and C are a majority; B returns."""
    hide = _paused if pause else _cut_off
    leader, (hidden, forgetful, *_) = await _roles(stage)
    with contextlib.ExitStack() as of_hidden, contextlib.ExitStack() as of_leader:
        of_hidden.enter_context(hide(stage, hidden))
        await asyncio.sleep(LOAD_SECONDS)
        of_leader.enter_context(hide(stage, leader))
        told = await POWER["power-loss"](_on(stage, forgetful, 0.0))
        of_hidden.close()
        of_leader.enter_context(hide(stage, leader))  # its links to the other were healed, too
        successor = await stage.arena.leader(other_than=leader, seconds_max=LEADER_SECONDS_MAX)
        await asyncio.sleep(LOAD_SECONDS)
    return f"{hidden} was hidden, then {leader}; {told}; {successor} led without {leader}"


async def nats_amnesia_pause(stage: Stage) -> str:
    """As it broke NATS JetStream 2.12.1: with stopped processes."""
    return await _amnesia(stage, pause=True)


async def nats_amnesia_partition(stage: Stage) -> str:
    """The same with nodes cut off."""
    return await _amnesia(stage, pause=False)


FAULTS: dict[str, Fault] = {
    "one-edge-cut": one_edge_cut,
    "old-leader-returns-with-queue": old_leader_returns_with_queue,
    "disk-hang-leader": disk_hang_leader,
    "power-all-under-load": power_all_under_load,
    "power-all-before-the-sync": power_all_before_the_sync,
    "rolling-restart-under-load": rolling_restart_under_load,
    "snapshot-while-partitioned": snapshot_while_partitioned,
    "far-behind-joins-by-state": far_behind_joins_by_state,
    "killed-while-sent-state": killed_while_sent_state,
    "remove-partitioned-member": remove_partitioned_member,
    "vote-then-power-loss": vote_then_power_loss,
    "leader-flap-figure-8": leader_flap_figure_8,
    "bitrot-minority-then-lead": bitrot_minority_then_lead,
    "nats-amnesia-pause": nats_amnesia_pause,
    "nats-amnesia-partition": nats_amnesia_partition,
}
