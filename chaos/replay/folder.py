"""The folder of one simulated run, beside those of live ones (chaos/live/folder.py).

env.json       arena "simulator"; seed, nodes, seconds, profile, planned, kept, salt, calm, mutant:
               all that repeats the run; schedule: its faults in the words of chaos/schedule.py
verdict.json   violation and detail, trace_hash, and the counts
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chaos.live.folder import commit
from chaos.schedule import Planned
from chaos.sim.course import Course
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.schedules import planned
from chaos.sim.world import RunResult

ARENA = "simulator"


@dataclass(frozen=True, slots=True)
class Simulated:
    """One simulated run. `mutant`: the rule that was taken out, "" for none."""

    plan: Plan
    mutant: str
    trace_hash: str
    violation: str

    @property
    def seed(self) -> int:
        return self.plan.first


def is_simulated(root: Path) -> bool:
    """Raises OSError, ValueError when `root` is no folder of a run."""
    return bool(_read(root / "env.json").get("arena") == ARENA)


def save(root: Path, plan: Plan, result: RunResult, mutant: str) -> None:
    """Write the folder of the run of `plan.first`."""
    root.mkdir(parents=True, exist_ok=True)
    course = plan.recorded(plan.first).course
    kept = course.kept
    # All that was planned: what is left out is left out again.
    schedule = planned(course, result.begun) if course.schedule is None else course.schedule
    env = {
        "arena": ARENA,
        "seed": plan.first,
        "nodes": plan.nodes_of(plan.first),
        "seconds": plan.seconds,
        "profile": asdict(plan.profile),
        "planned": course.schedule is not None,
        "kept": None if kept is None else sorted(kept),
        "salt": course.salt,
        "calm": course.calm,
        "mutant": mutant,
        "commit": commit(),
        "dledger": version("dledger"),
        "schedule": [one.to_fields() for one in schedule],
    }
    _write(root / "env.json", env)
    verdict = {"verdict": "invalid" if result.violation else "valid", **asdict(result)}
    del verdict["begun"]
    # In the words of a live run, so that one list shows both (chaos/report/serve.py).
    count = len(result.begun)
    verdict["faults"] = {"carried_out": count, "took_effect": count, "kinds": result.faults}
    verdict["violations"] = int(bool(result.violation))
    _write(root / "verdict.json", verdict)


def load(root: Path) -> Simulated:
    """Raises OSError, ValueError, KeyError, TypeError for what is no folder of a simulated run."""
    env, said = _read(root / "env.json"), _read(root / "verdict.json")
    if env.get("arena") != ARENA:
        raise ValueError("it was no simulated run")
    course = Course(
        schedule=tuple(Planned.from_fields(row) for row in env["schedule"])
        if env["planned"]
        else None,
        kept=None if env["kept"] is None else frozenset(env["kept"]),
        salt=env["salt"],
        calm=env["calm"],
    )
    seed = env["seed"]
    profile = Profile(**env["profile"])
    plan = Plan(seed, seed + 1, env["nodes"], env["seconds"], profile, course)
    return Simulated(plan, env["mutant"], said["trace_hash"], said["violation"])


def _read(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no object")
    return found


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
