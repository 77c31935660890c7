"""Turns the schedule of a folder into a plan for either arena, for `dledger chaos replay --arena`.

folder of a live run ─► Course(schedule) ─► simulator      kinds that it has
folder of a simulated run ─► Plan ─► real processes        kinds that work on this machine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.faults import Network
from chaos.live.evidence_rows import check_env
from chaos.live.json_files import read_json
from chaos.live.run import Plan as LivePlan
from chaos.live.run import left_out
from chaos.live.settings import RunSettings
from chaos.live.typed import as_names, check_types
from chaos.replay.folder import ARENA
from chaos.schedule import Planned, Swarm
from chaos.sim.course import Course
from chaos.sim.runner import Plan
from chaos.workloads import Workload


def simulated_plan(root: Path) -> Plan:
    """The faults of a live run's folder in the simulator, with the same seed.

    Raises OSError, ValueError, KeyError, TypeError when `root` is no folder of a run.
    """
    env = read_json(root / "env.json", check_env)
    settings, seed = env["settings"], env["seed"]
    course = Course(schedule=tuple(_schedule(env)))
    return Plan(seed, seed + 1, settings["nodes"], settings["seconds"], course=course)


def live_plan(root: Path) -> LivePlan:
    """The faults of a run's folder on real processes.

    Raises OSError, ValueError, KeyError, TypeError when `root` is no folder of a run.
    """
    env = read_json(root / "env.json", check_env)
    schedule = _schedule(env)
    swarm: tuple[Swarm, ...]
    calm = False
    drawn = tuple(dict.fromkeys(one.kind for one in schedule))
    if env.get("arena") == ARENA:
        settings = RunSettings(env["seconds"], env["nodes"], kinds=drawn, quiet=0.0)
        kept = None if env["kept"] is None else set(env["kept"])
        schedule = [one for one in schedule if kept is None or one.number in kept]
        even = dict.fromkeys(drawn, 1.0)
        swarm = (Swarm(settings.gap_min, settings.gap_max, 0.0, 1.0, even),)
        calm = not schedule  # of a run without faults, or of one that fails without any
    else:
        settings, swarm = _settings(env["settings"]), _weathers(env["swarm"])
    skipped = left_out(drawn, settings.nodes, settings.network)
    return LivePlan(
        settings,
        env["seed"],
        tuple(kind for kind in drawn if kind not in skipped),
        skipped,
        swarm,
        [one for one in schedule if one.kind not in skipped],
        bool(env.get("in_turn")),
        calm,
    )


def _schedule(env: Mapping[str, Any]) -> list[Planned]:
    return [Planned.from_fields(row) for row in env["schedule"]]


def _weathers(found: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[Swarm, ...]:
    """Older runs had one for all their time."""
    rows = [found] if isinstance(found, Mapping) else found
    return tuple(Swarm(**row) for row in rows)


def _settings(fields: Mapping[str, Any]) -> RunSettings:
    check_types("settings", fields, RunSettings)
    check_types("workload", fields["workload"], Workload)
    values = {**fields, "kinds": tuple(as_names("kinds", fields["kinds"]))}
    values["workload"] = Workload(**fields["workload"])
    values["network"] = Network(values.get("network", Network.PROXIES))  # older runs name none
    return RunSettings(**values)
