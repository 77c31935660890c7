"""The schedule of a folder, for either arena: what `dledger chaos replay --arena` runs.

folder of a live run ─► Course(schedule) ─► simulator      kinds that it has
folder of a simulated run ─► Plan ─► real processes        kinds that work on this machine
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.drivers.probe import why_not
from chaos.faults import Network
from chaos.live.run import Plan as LivePlan
from chaos.live.settings import RunSettings
from chaos.replay.folder import ARENA
from chaos.schedule import Planned, Swarm
from chaos.sim.course import Course
from chaos.sim.runner import Plan
from chaos.workloads import Workload


def simulated_plan(root: Path) -> Plan:
    """The faults of a live run's folder in the simulator, with the same seed.

    Raises OSError, ValueError, KeyError, TypeError when `root` is no folder of a run.
    """
    env = _env(root)
    settings, seed = env["settings"], env["seed"]
    course = Course(schedule=tuple(_schedule(env)))
    return Plan(seed, seed + 1, settings["nodes"], settings["seconds"], course=course)


def live_plan(root: Path) -> LivePlan:
    """The faults of a run's folder on real processes.

    Raises OSError, ValueError, KeyError, TypeError when `root` is no folder of a run.
    """
    env = _env(root)
    schedule = _schedule(env)
    drawn = tuple(dict.fromkeys(one.kind for one in schedule))
    if env.get("arena") == ARENA:
        settings = RunSettings(env["seconds"], env["nodes"], kinds=drawn, quiet=0.0)
        kept = None if env["kept"] is None else set(env["kept"])
        schedule = [one for one in schedule if kept is None or one.number in kept]
        swarm = Swarm(settings.gap_min, settings.gap_max, 0.0, 1.0, dict.fromkeys(drawn, 1.0))
    else:
        settings, swarm = _settings(env["settings"]), Swarm(**env["swarm"])
    skipped = {kind: reason for kind in drawn if (reason := why_not(kind))}
    return LivePlan(
        settings,
        env["seed"],
        tuple(kind for kind in drawn if kind not in skipped),
        skipped,
        swarm,
        [one for one in schedule if one.kind not in skipped],
        bool(env.get("in_turn")),
    )


def _env(root: Path) -> dict[str, Any]:
    found = json.loads((root / "env.json").read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError("env.json holds no object")
    return found


def _schedule(env: Mapping[str, Any]) -> list[Planned]:
    return [Planned.from_fields(row) for row in env["schedule"]]


def _settings(fields: Mapping[str, Any]) -> RunSettings:
    values = {**fields, "kinds": tuple(fields["kinds"]), "workload": Workload(**fields["workload"])}
    values["network"] = Network(values.get("network", Network.PROXIES))  # older runs name none
    return RunSettings(**values)
