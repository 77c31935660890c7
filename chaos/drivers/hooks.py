"""Kinds 31, 33, 37, 38: what only the node itself can do, asked through its control file."""

from __future__ import annotations

import asyncio

from chaos.drivers.stage import Fault, Stage
from chaos.live import failpoints, node_hooks

ANSWER_SECONDS_MAX = 5.0
HAND_OVERS_MAX = 5
HAND_OVER_PAUSE_SECONDS = 0.5
PASSINGS_MAX = 5
FAILPOINT_SECONDS_MAX = 8.0
ROLL_SECONDS_MAX = 15.0  # a file of 1 MiB is full by then, or the load is too thin for this fault

#: Passed by every node under load; the others belong to rare deeds (elections, truncations, rolls).
COMMON = ("data.write", "data.sync", "index.write", "flushmark.", "queue.write")


async def ask(stage: Stage, node: str, **what: object) -> str:
    """What the node answers; "" when it does not."""
    folder = stage.folder(node)
    number = node_hooks.ask(folder, **what)
    await stage.until(lambda: node_hooks.answered(folder, number) is not None, ANSWER_SECONDS_MAX)
    return node_hooks.answered(folder, number) or ""


async def clock(stage: Stage) -> str:
    """Jumps ahead, drifts, or strobes between two rates; the wall clock jumps either way."""
    random = stage.random
    what = {
        "skip": random.choice((0.05, 0.3, 2.0, 60.0)),
        "rate": random.choice((0.5, 0.95, 1.05, 3.0)),
        "wall_ms": random.choice((-3_600_000, -500, 500, 3_600_000)),
    }
    try:
        told = await ask(stage, stage.node, clock=what)
        await stage.hold()
    finally:
        await ask(stage, stage.node, clock={"skip": 0.0, "rate": 1.0, "wall_ms": 0})
        node_hooks.forget(stage.folder(stage.node))
    return told


async def transfer(stage: Stage) -> str:
    """The leader hands over under load; to a node that is behind it cannot: it is asked again."""
    node = stage.node
    for _ in range(HAND_OVERS_MAX):
        told = await ask(stage, node, transfer="")
        node_hooks.forget(stage.folder(node))
        if told:
            return told
        await asyncio.sleep(HAND_OVER_PAUSE_SECONDS)
        node = await stage.arena.leader()
    return ""


async def failpoint(stage: Stage) -> str:
    """Dies at a named place that is passed under load."""
    leads = await stage.leads(stage.node)
    name = stage.random.choice(passed_under_load(leads=leads))
    stage.notes["failpoint"] = name
    after = stage.random.randrange(PASSINGS_MAX)
    told = await die_at(stage, name, after, seconds_max=FAILPOINT_SECONDS_MAX)
    if told:
        return told
    # The node has changed its role meanwhile, or the load is thin: one that every node passes.
    await stage.up_again(stage.node)
    stage.notes["failpoint"] = "data.sync.before"
    return await die_at(stage, "data.sync.before", 0, seconds_max=FAILPOINT_SECONDS_MAX)


def passed_under_load(*, leads: bool) -> list[str]:
    """Names of places that a leader, or a follower, passes many times a second under load."""
    sends = ("AppendEntries", "Heartbeat") if leads else ("AppendReply", "HeartbeatReply")
    wanted = (*COMMON, *(f"send.{message}." for message in sends))
    return [name for name in failpoints.NAMES if name.startswith(wanted)]


async def snapshot_cut(stage: Stage) -> str:
    """Dies while its next log file is made or begun; small files make that soon."""
    name = stage.random.choice(("data.create.before", "data.create.after"))
    told = await die_at(stage, name, 0, seconds_max=ROLL_SECONDS_MAX)
    if told:
        return told
    # The load is too thin to fill a file: half a record at the end of the one in use comes closest.
    return await die_at(stage, "data.write.torn", 0)


async def die_at(
    stage: Stage, name: str, after: int, seconds_max: float = ANSWER_SECONDS_MAX
) -> str:
    """Arm, wait for the death, take the wish back and start again; "" when it did not die there."""
    folder = stage.folder(stage.node)
    hit = folder / failpoints.HIT_FILE
    hit.unlink(missing_ok=True)
    armed = await ask(stage, stage.node, failpoint={"name": name, "after": after})
    died = bool(armed) and await stage.until(
        lambda: not stage.running(stage.node) and hit.exists(), seconds_max
    )
    node_hooks.forget(folder)
    await stage.kill([stage.node])
    await stage.start(stage.node)
    return f"died at {hit.read_text()}, passing {after}" if died else ""


FAULTS: dict[str, Fault] = {
    "clock": clock,
    "transfer": transfer,
    "failpoint": failpoint,
    "snapshot-cut": snapshot_cut,
}
