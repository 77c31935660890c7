"""The same course against dledger: the live arena, its drivers, the same judge (chaos/live).

power-all   kind 7, every node's disk          partition   kind 18, on the leader
kill-all    kind 1, every process              replay      kind 29: requests of clients arrive
                                                           twice; peers' frames: `dledger sim`
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from chaos.baseline.run import Result
from chaos.drivers.probe import why_not
from chaos.faults import Target, kind_of
from chaos.live.run import Plan, Ran, make_plan, run
from chaos.live.settings import RunSettings
from chaos.schedule import Planned
from chaos.workloads import Workload

FAULT_AT_SECONDS, SECONDS = 3.0, 8.0
ACKED_MIN = 40
LOAD = Workload(
    queues=1, producers=12, keyed=0, readers=0, registers=0, groups=0, rate=150.0, asks=1.0
)

KINDS = {
    "power-all": ("power-all", Target.ALL),
    "kill-all": ("kill", Target.ALL),
    "partition": ("partition", Target.LEADER),
    "replay": ("replay", Target.LEADER),
}


def skipped(course: str) -> str:
    """Why a course cannot be run here; "" when it can."""
    return why_not(KINDS[course][0])


def plan_of(course: str, seed: int) -> Plan:
    """Returns the plan for dledger that matches `courses.py`: load, one fault, load. Raises
    ValueError if it cannot be run."""
    kind, target = KINDS[course]
    settings = RunSettings(
        seconds=SECONDS, acked_min=ACKED_MIN, kinds=(kind,), swarm=False, workload=LOAD
    )
    drawn = make_plan(settings, seed)
    random = Random(f"{course}/{seed}")
    low, high = kind_of(kind).seconds
    seconds = round(min(random.uniform(low, high), 3.0), 3)
    one = Planned(0, FAULT_AT_SECONDS, kind, target, seconds, random.getrandbits(32))
    return Plan(settings, seed, drawn.kinds, drawn.skipped, drawn.swarm, (one,), in_turn=True)


async def run_ours(course: str, seed: int, root: Path) -> Result:
    """Raises ValueError when it cannot be run here, LauncherError, OSError."""
    began = time.monotonic()
    ran: Ran = await run(plan_of(course, seed), root)
    seen = "; ".join(one.seen for one in ran.evidence.happened if one.seen)
    logs = {
        node: [entry for queue in sorted(queues) for entry in queues[queue]]
        for node, queues in ran.evidence.replicas.items()
    }
    history = tuple(ran.evidence.history)
    verdict = ran.judgement.verdict
    return Result(course, seed, verdict, seen, time.monotonic() - began, history, logs)
