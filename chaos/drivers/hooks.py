"""Kinds 31, 33, 37, 38: faults that only the node itself can carry out, asked for through its
control file."""

from __future__ import annotations

import asyncio
import time

import cluster
from chaos.drivers import filler
from chaos.drivers.stage import Fault, Stage
from chaos.live import failpoint_names, failpoints, node_hooks

ANSWER_SECONDS_MAX = 5.0
HAND_OVERS_MAX = 5
HAND_OVER_PAUSE_SECONDS = 0.5
PASSINGS_MAX = 5
FAILPOINT_SECONDS_MAX = 8.0
ROLL_SECONDS_MAX = 15.0  # a file of 1 MiB is full by then
RIGHT_AGAIN_TRIES = 3
STROBE_SECONDS = (0.05, 0.4)

#: Passed by every node under load; others belong to rare actions (election, truncation, roll).
COMMON = ("data.write", "data.sync", "index.write", "flushmark.", "consumequeue.write")


async def ask(stage: Stage, node: str, **what: object) -> str:
    """Leaves a request for the node and returns its answer; "" if none came in time."""
    folder = stage.folder(node)
    number = node_hooks.ask(folder, **what)
    await stage.until(lambda: node_hooks.answered(folder, number) is not None, ANSWER_SECONDS_MAX)
    return node_hooks.answered(folder, number) or ""


async def clock(stage: Stage) -> str:
    """Jumps ahead and drifts, once or in strobes; the wall clock jumps either way."""
    strobes = stage.random.random() < 0.5
    end = time.monotonic() + stage.seconds
    told = []
    try:
        while True:  # bounded by the time
            skew = _skew(stage)
            ahead = max(skew["wall_ms"], float(str(stage.notes.get("wall_ms", "-inf"))))
            stage.notes["wall_ms"] = ahead
            told.append(await ask(stage, stage.node, clock=skew))
            left = end - time.monotonic()
            if not strobes or left <= 0:
                break
            await asyncio.sleep(min(left, stage.random.uniform(*STROBE_SECONDS)))
        await asyncio.sleep(max(0.0, end - time.monotonic()))
    finally:
        await _right_again(stage)
    seen = [one for one in told if one]
    if strobes and len(seen) < 2:  # one skew is no strobe
        return ""
    return "; ".join(seen[:1] + [f"{len(seen)} skews in turn"] * strobes) if seen else ""


async def _right_again(stage: Stage) -> None:
    """Raises OSError when a node that lives does not answer: its clock may be wrong for good."""
    right = {"skip": 0.0, "rate": 1.0, "wall_ms": 0}
    try:
        for _ in range(RIGHT_AGAIN_TRIES):  # one that stands still answers later
            if await ask(stage, stage.node, clock=right) or not stage.running(stage.node):
                return
        raise OSError(f"{stage.node} did not say that its clock is right again")
    finally:
        node_hooks.forget(stage.folder(stage.node))


def _skew(stage: Stage) -> dict[str, float]:
    random = stage.random
    return {
        "skip": random.choice((0.05, 0.3, 2.0, 60.0)),
        "rate": random.choice((0.5, 0.95, 1.05, 3.0)),
        "wall_ms": random.choice((-3_600_000, -500, 500, 3_600_000)),
    }


async def transfer(stage: Stage) -> str:
    """The leader hands over under load, half of the time first to a node that is ill or behind.

    That it may refuse: it is asked again, and then it chooses.
    """
    node = stage.node
    to = await _worst_follower(stage) if stage.random.random() < 0.5 else ""
    for _ in range(HAND_OVERS_MAX):
        told = await ask(stage, node, transfer=to)
        node_hooks.forget(stage.folder(node))
        if told:
            return f"{told}{to and f' to {to}'}"
        if to:
            stage.notes["refused"] = to
            to = ""
        await asyncio.sleep(HAND_OVER_PAUSE_SECONDS)
        node = await stage.arena.leader()
    return ""


async def _worst_follower(stage: Stage) -> str:
    """Returns the follower that does not answer, else one with an unhealthy disk, else the one
    with the shortest log; notes the choice."""
    statuses = await stage.arena.statuses()

    def rank(node: str) -> tuple[bool, bool, int]:
        status = statuses.get(node) or {}
        return bool(status), status.get("disk") == "good", int(status.get("last_index", -1))

    worst = min(stage.others, key=rank, default="")
    if worst:
        stage.notes["asked_for"] = worst
        answers, healthy, last = rank(worst)
        ill = "" if healthy else ", its disk is ill"
        stage.notes["asked_for_at"] = f"entry {last}{ill}" if answers else "no answer"
    return worst


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
    return [name for name in failpoint_names.NAMES if name.startswith(wanted)]


async def snapshot_cut(stage: Stage) -> str:
    """Dies while its next log file is made: large messages fill the one in use meanwhile."""
    name = stage.random.choice(("data.create.before", "data.create.after"))
    filling = asyncio.ensure_future(_keep_filling(stage))
    try:
        return await die_at(stage, name, 0, seconds_max=ROLL_SECONDS_MAX)
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _keep_filling(stage: Stage) -> None:
    async with cluster.connect(stage.arena.cluster.nameserver) as client:
        while True:  # until it is cancelled
            await filler.fill(client)


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
