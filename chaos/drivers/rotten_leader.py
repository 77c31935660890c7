"""`bitrot-minority-then-lead`: a follower's committed entries rot, then it is pushed to lead."""

from __future__ import annotations

import time

from chaos.drivers import file_damage
from chaos.drivers.stage import Stage
from chaos.drivers.steps import (
    HAND_OVER_SECONDS,
    LOAD_SECONDS,
    hand_over,
    keeps_a_majority,
    on,
    roles,
)

PUSH_SECONDS_MAX = 12.0


@keeps_a_majority
async def bitrot_minority_then_lead(stage: Stage) -> str:
    """Never silence about it: it refuses, or has its log repaired and leads then; says which."""
    _, (rotten, *_) = await roles(stage)

    async def push() -> str:
        return await _pushed(stage, rotten)

    return await file_damage.rotten_log(on(stage, rotten, LOAD_SECONDS), push)


async def _pushed(stage: Stage, rotten: str) -> str:
    """Asks for hand-overs until the damaged node leads. Returns the outcome in words, "" if no node
    was asked."""
    end, asked, damaged = time.monotonic() + PUSH_SECONDS_MAX, 0, 0
    while time.monotonic() < end and stage.running(rotten):
        status = (await stage.arena.statuses()).get(rotten)
        if status is not None:
            damaged = len(status["repair"]["damaged"])
            if status["role"] == "leader":
                how = f"with {damaged} damaged ranges" if damaged else "repaired"
                return f"it led {how}, after {asked} hand-overs"
        leader = await stage.arena.leader()
        if leader != rotten:
            await hand_over(stage, leader, rotten)
            asked += 1
        await stage.until(lambda: not stage.running(rotten), HAND_OVER_SECONDS)
    return f"{asked} hand-overs to it failed, {damaged} ranges are damaged" if asked else ""
