"""A disk that says "synced" and did not, on every node, then a power cut (kind 14)."""

from __future__ import annotations

from pathlib import Path

from chaos.controls.control import Control, Shown
from chaos.drivers.probe import why_not
from chaos.live.run import make_plan
from chaos.live.run import run as run_plan
from chaos.live.settings import RunSettings
from chaos.workloads import Workload

KIND = "fsync-lies"
LOAD = Workload(
    queues=1, producers=8, keyed=0, readers=0, registers=0, groups=0, rate=200.0, asks=1.0
)
SECONDS = 8.0


async def run(root: Path, seed: int) -> Shown:
    """Raises LauncherError, OSError."""
    settings = RunSettings(seconds=SECONDS, kinds=(KIND,), swarm=False, workload=LOAD)
    ran = await run_plan(make_plan(settings, seed, each=True), root)
    verdict = ran.judgement.verdict
    told = "; ".join(one.seen or one.error for one in ran.evidence.happened)
    names = ", ".join(sorted({anomaly.name for anomaly in verdict.anomalies}))
    seen = f"{told}; acknowledged {verdict.acked}, lost {verdict.lost}" + (names and f" ({names})")
    return Shown(verdict.lost > 0, seen)


CONTROL = Control(
    KIND,
    "syncs do nothing and say that they did, then all lose their power",
    "lost-write",
    lambda: why_not(KIND),
    run,
)
