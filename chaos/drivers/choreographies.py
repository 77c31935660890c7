"""Courses of faults that broke real systems, by name: several nodes, several faults.

Source: docs/spec/chaos.md 3.2.

Each takes the whole cluster for itself, chooses its nodes by role, and returns what it saw of every
step; "" when one of them did not happen. Those that leave a majority whole say so, all of them or
for a while: the service must go on then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace

from chaos.drivers import (
    amnesia,
    backup,
    links,
    members,
    processes,
    retention,
    rotten_leader,
    votes,
)
from chaos.drivers.hooks import ask
from chaos.drivers.power import FAULTS as POWER
from chaos.drivers.shim import Mode
from chaos.drivers.stage import POLL_SECONDS, Fault, Stage
from chaos.drivers.steps import (
    LEADER_SECONDS_MAX,
    LOAD_SECONDS,
    all_back,
    committed,
    cut_off,
    keeps_a_majority,
    on,
    roles,
)
from chaos.live import failpoints, node_hooks

ELECTION_SECONDS_MAX = 0.6
FLAPS = 3
ALONE_SECONDS = 0.15  # it still leads then, and what is sent to it goes to its log
#: Where one dies that is sent a state: before and after it answers, while its log begins anew.
WHILE_SENT_STATE = (
    *("send.SnapshotReply.before", "send.SnapshotReply.after"),
    *("flushmark.write.before", "flushmark.write.torn", "flushmark.sync.after"),
)
UNSYNCED_SECONDS = 0.5  # acknowledged in memory meanwhile; less than a hung disk costs the lead


@keeps_a_majority
async def one_edge_cut(stage: Stage) -> str:
    """Three nodes, the leader and one follower do not see each other: no endless elections."""
    _, followers = await roles(stage)
    return await links.ring(replace(stage, nodes=[followers[0]], seconds=5 * ELECTION_SECONDS_MAX))


@keeps_a_majority
async def old_leader_returns_with_queue(stage: Stage) -> str:
    """Holds back all bytes that the leader sends for three election timeouts, then delivers
    them.
    """
    leader, _ = await roles(stage)
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


@keeps_a_majority
async def disk_hang_leader(stage: Stage) -> str:
    """The leader's disk hangs while its heartbeats could go on: another node must take the lead,
    and commits must go on.

    Until it does, both followers have on disk what is acknowledged.
    """
    assert stage.shims is not None, "only where the shim can be built"
    leader, _ = await roles(stage)
    shim = stage.shims[leader]
    hits, before = shim.hits()[1], await committed(stage)
    with shim.faulty(sync=Mode.HANG):
        successor = await stage.arena.leader(other_than=leader, seconds_max=LEADER_SECONDS_MAX)
        await asyncio.sleep(LOAD_SECONDS)
        hung, more = shim.hits()[1] - hits, await committed(stage) - before
    if not hung or more <= 0:
        return ""
    return (
        f"{hung} syncs of {leader} hung, {successor} led; {more} entries were committed meanwhile"
    )


async def power_all_under_load(stage: Stage) -> str:
    """Every node loses its power in the middle of writes."""
    return await POWER["power-all"](replace(stage, seconds=0.1))


async def power_all_before_the_sync(stage: Stage) -> str:
    """All syncs hang, then all power goes: only messages acknowledged in memory may be lost."""
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


@keeps_a_majority
async def rolling_restart_under_load(stage: Stage) -> str:
    """One after the other, the next when the one before has caught up."""
    told = []
    for node in stage.nodes:
        told.append(await processes.stop(on(stage, node, 0.1)))
        await stage.up_again(node)
    return "; ".join(told) if all(told) else ""


@keeps_a_majority
async def snapshot_while_partitioned(stage: Stage) -> str:
    """The log's beginning passes a follower that is cut off: healed, it is sent the state."""
    _, (hidden, *_) = await roles(stage)
    with cut_off(stage, hidden) as seen:
        first = await retention.trim_past(stage, hidden)
        dropped = seen.tell("dropped bytes")
    return await _joined(stage, hidden, first) if first and dropped else ""


@keeps_a_majority
async def far_behind_joins_by_state(stage: Stage) -> str:
    """A node is down while the beginning of the log passes the end of its own log. Started again,
    it must install a snapshot."""
    _, (down, *_) = await roles(stage)
    await stage.kill([down])
    first = await retention.trim_past(stage, down)
    await stage.start(down)
    await stage.up_again(down)
    return await _joined(stage, down, first) if first else ""


@keeps_a_majority
async def killed_while_sent_state(stage: Stage) -> str:
    """A follower dies between its first word about a state and its log's new beginning."""
    _, (victim, *_) = await roles(stage)
    point = stage.random.choice(WHILE_SENT_STATE)
    folder = stage.folder(victim)
    hit = folder / failpoints.HIT_FILE
    hit.unlink(missing_ok=True)
    with cut_off(stage, victim) as seen:
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
    """Waits until the node's log begins at `first` or later, which only an installed snapshot can
    bring about."""
    end, began = time.monotonic() + LEADER_SECONDS_MAX, time.monotonic()
    while (begins := await retention.first_index(stage, node)) < first:
        if time.monotonic() > end:
            return ""
        await asyncio.sleep(POLL_SECONDS)
    took = time.monotonic() - began
    return f"logs began at entry {first}, behind the end of {node}; {took:.2f} s later at {begins}"


@keeps_a_majority
async def remove_partitioned_member(stage: Stage) -> str:
    """Removes a member that cannot hear it. After it is reachable again it must not disturb the
    group, and it is added again."""
    _, (gone, *_) = await roles(stage)
    async with members.membership_of(on(stage, gone, 0.0)) as member:
        with cut_off(stage, gone) as seen:
            left = await member.remove()
            await asyncio.sleep(LOAD_SECONDS)
            dropped = seen.tell("dropped bytes")
        leader, before = await stage.arena.leader(), await committed(stage)
        await asyncio.sleep(3 * ELECTION_SECONDS_MAX)
        stayed = await stage.arena.leader() == leader and await committed(stage) > before
        took = await member.add()
    if not dropped or not stayed:
        return ""
    return f"{gone} left {left} members unheard, {dropped}; votes again {took:.2f} s after it asked"


async def leader_flap_figure_8(stage: Stage) -> str:
    """Leaders die in turn, each with entries that fewer than a majority hold (Raft, figure 8).

    Each comes back only when its successor is dead, too: it may lead again with what it had alone.
    """
    told, dead = [], ""
    for _ in range(FLAPS):
        leader, followers = await roles(stage)
        reached = followers[: len(stage.nodes) // 2 - 1]  # with the leader one less than a majority
        left = await _dies_with_entries(stage, leader, reached)
        if dead:
            await stage.start(dead)
        dead = leader
        heard = " and ".join(reached) or "nobody"
        told.append(f"{leader} died with {left} entries, {heard} had heard it" if left > 0 else "")
    await stage.start(dead)
    await all_back(stage)
    return "; ".join(told) if all(told) else ""


async def _dies_with_entries(stage: Stage, leader: str, reached: Sequence[str]) -> int:
    """Kill a leader that reached only these; how many entries it had that were not committed."""
    cut = [
        link for link in stage.arena.mesh.of(leader) if not {link.source, link.target} & {*reached}
    ]
    with links.healed(cut) as seen:
        for link in cut:
            link.drop()
        await asyncio.sleep(ALONE_SECONDS)
        status = (await stage.arena.statuses()).get(leader)
        await stage.kill([leader])
        dropped = seen.tell("dropped bytes")
    return status["last_index"] - status["committed_index"] if status and dropped else 0


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
    "vote-then-power-loss": votes.vote_then_power_loss,
    "leader-flap-figure-8": leader_flap_figure_8,
    "bitrot-minority-then-lead": rotten_leader.bitrot_minority_then_lead,
    "old-copy-returns": backup.old_copy_returns,
    "nats-amnesia-pause": amnesia.nats_amnesia_pause,
    "nats-amnesia-partition": amnesia.nats_amnesia_partition,
}
