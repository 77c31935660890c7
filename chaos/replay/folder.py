"""The folder of one simulated run, beside those of live ones (chaos/live/folder.py).

env.json       arena "simulator"; seed, nodes, seconds, profile, planned, kept, salt, calm, mutant:
               all that repeats the run; schedule: its faults in the words of chaos/schedule.py
ended.json     violation and detail, what no client knows the end of, a list of the evidence
               (chaos/live/evidence_files.py)
verdict.json   violation and detail, trace_hash, and the counts
               of a run that was recorded (record.py) with all that a report and a second judgement
               ask of it; report.html is made then
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from chaos.live.evidence_files import ENDED, save_ended
from chaos.live.evidence_rows import check_env, check_verdict
from chaos.live.folder import commit
from chaos.live.json_files import read_json, write_json
from chaos.mutants.within import line_within
from chaos.replay.again import judge_simulated
from chaos.replay.record import run_recorded
from chaos.report.page import write_report
from chaos.schedule import Planned
from chaos.sim.course import Course
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.schedules import planned
from chaos.sim.world import RunResult
from chaos.tools.outputs import check_folder

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
        """The seed that was run."""
        return self.plan.first


def is_simulated(root: Path) -> bool:
    """Raises OSError, ValueError when `root` is no folder of a run."""
    return bool(read_json(root / "env.json").get("arena") == ARENA)


def record(root: Path, plan: Plan, mutant: str, *, story: bool = False) -> RunResult:
    """Run `plan.first`, and write all of its folder, with a report.

    Raises click.UsageError when there is something in it already: files of two runs, a report of
    the one beside the history of the other, would be judged as one.
    """
    check_folder(root)
    result, besides = run_recorded(plan, root, story=story)
    save(root, plan, result, mutant)
    said = read_json(root / "verdict.json") | besides
    said["again"] = line_within(mutant, plan.again(plan.first))
    if plan.course.schedule is not None and plan.schedules is None and not plan.course.calm:
        said["again"] = f"dledger chaos replay {root}"
    seen = ("violation", "detail", "unfinished", "load_seconds")
    save_ended(root, {name: said[name] for name in seen})
    said["evidence"] = ENDED
    write_json(root / "verdict.json", said)
    write_json(root / "verdict.json", said | judge_simulated(root).summary)
    write_report(root)
    return result


def save(root: Path, plan: Plan, result: RunResult, mutant: str) -> None:
    """Writes the files that repeat the run of `plan.first`, and its result."""
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
        # In the words of a live run, for reports.
        "settings": {"nodes": plan.nodes_of(plan.first), "seconds": plan.seconds},
        "kinds": sorted({one.kind for one in schedule}),
        "skipped": {},
    }
    write_json(root / "env.json", env)
    verdict = {"verdict": "invalid" if result.violation else "valid", **asdict(result)}
    del verdict["begun"]
    # In the words of a live run, so that one list shows both (chaos/report/serve.py).
    count = len(result.begun)
    verdict["faults"] = {"carried_out": count, "took_effect": count, "kinds": result.faults}
    verdict["violations"] = int(bool(result.violation))
    write_json(root / "verdict.json", verdict)


def load(root: Path) -> Simulated:
    """Reads a simulated run's folder. Raises OSError, ValueError, KeyError or TypeError if it is
    not one."""
    env = read_json(root / "env.json", check_env)
    if env.get("arena") != ARENA:
        raise ValueError("it was no simulated run")
    said = read_json(root / "verdict.json", check_verdict)
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
