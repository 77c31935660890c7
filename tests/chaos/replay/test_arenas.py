"""One schedule, two arenas: a live run's faults in the simulator, a simulated run's faults live."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.live import folder as live_folder
from chaos.live.command import chaos
from chaos.live.run import Plan as LivePlan
from chaos.live.run import make_plan
from chaos.live.settings import RunSettings
from chaos.replay import folder
from chaos.replay.other_arena import live_plan, simulated_plan
from chaos.sim.course import NOTHING, Course
from chaos.sim.kinds.table import CATALOGUE
from chaos.sim.runner import Plan

SETTINGS = RunSettings(seconds=14.0, kinds=("kill", "pause", "slice", "partition", "clock"))


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """The folder of a live run, as it is before the run."""
    live_folder.save_plan(tmp_path, make_plan(SETTINGS, 12))
    return tmp_path


def _replay(*words: str | Path) -> Result:
    return CliRunner().invoke(chaos, ["replay", *(str(word) for word in words)])


def test_a_live_schedule_runs_in_the_simulator(live: Path, tmp_path: Path) -> None:
    drawn = make_plan(SETTINGS, 12).schedule
    expected = [(one.at, one.kind) for one in drawn if one.kind in CATALOGUE]
    assert expected
    assert len(expected) < len(drawn)
    result = simulated_plan(live).run(12)
    assert [(one.at, one.kind) for one in result.begun] == expected
    done = _replay(live, "--arena", "sim", "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    assert "skipped  slice: the simulator does not have it" in done.output
    found = folder.load(tmp_path / "again")
    assert found.trace_hash == result.trace_hash
    assert "the same trace" in _replay(tmp_path / "again").output


def test_a_live_schedule_that_fails_in_the_simulator_is_made_smaller(
    live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CliRunner().invoke(chaos, ["shrink", str(live)]).exit_code == 2
    monkeypatch.setattr("dledger.core.quorum.majority", lambda voters: 1)
    done = CliRunner().invoke(chaos, ["shrink", str(live), "--out", str(tmp_path / "less")])
    assert done.exit_code == 0, done.output
    assert folder.load(tmp_path / "less").plan.course.schedule is not None


def test_a_live_run_is_repeated_with_the_same_schedule(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[LivePlan] = []

    def supervise(planned: LivePlan, *_: object, **__: object) -> int:
        ran.append(planned)
        return 0

    monkeypatch.setattr("chaos.replay.command.supervise", supervise)
    assert _replay(live).exit_code == 0
    before = make_plan(SETTINGS, 12)
    assert ran[0].schedule == list(before.schedule)
    assert (ran[0].settings, ran[0].seed, ran[0].swarm) == (before.settings, 12, before.swarm)


def test_weathers_come_back_from_the_folder_and_older_folders_have_one(tmp_path: Path) -> None:
    planned = make_plan(replace(SETTINGS, seconds=40.0, weather_seconds=10.0), 12)
    assert len(planned.swarm) == 4
    live_folder.save_plan(tmp_path, planned)
    assert live_plan(tmp_path).swarm == planned.swarm
    env = json.loads((tmp_path / "env.json").read_text())
    (older,) = env["swarm"][:1]
    del older["since"], env["settings"]["weather_seconds"]
    (tmp_path / "env.json").write_text(json.dumps(env | {"swarm": older}))
    assert live_plan(tmp_path).swarm == planned.swarm[:1]


def test_a_simulated_run_becomes_a_live_schedule(tmp_path: Path) -> None:
    plan = Plan(4, 5, 3, 20.0)
    result = plan.run(4)
    folder.save(tmp_path, plan, result, "")
    found = live_plan(tmp_path)
    assert (found.seed, found.settings.nodes, found.settings.seconds) == (4, 3, 20.0)
    wanted = {one.number for one in result.begun}
    skipped = {
        row["number"]
        for row in json.loads((tmp_path / "env.json").read_text())["schedule"]
        if row["kind"] in found.skipped
    }
    assert {one.number for one in found.schedule} == wanted - skipped


def test_a_smaller_run_is_live_without_what_was_left_out(tmp_path: Path) -> None:
    settings = replace(SETTINGS, kinds=("kill", "pause"))
    schedule = tuple(make_plan(settings, 3).schedule)
    kept = schedule[1].number
    course = Course(schedule=schedule, kept=frozenset({kept}))
    plan = Plan(3, 4, 3, 14.0, course=course)
    folder.save(tmp_path, plan, plan.run(3), "")
    assert folder.load(tmp_path).plan == plan
    assert live_plan(tmp_path).schedule == [schedule[1]]


def test_a_replay_without_any_fault_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SETTINGS, kinds=("slice",))
    live_folder.save_plan(tmp_path, make_plan(settings, 12))
    done = _replay(tmp_path, "--arena", "sim")
    assert done.exit_code == 254
    assert "the simulator has none of the run's faults: slice" in done.output
    monkeypatch.setattr("chaos.live.run.why_not", lambda *_: "needs a better machine")
    done = _replay(tmp_path, "--arena", "live", "--out", tmp_path / "again")
    assert done.exit_code == 254
    said = " ".join(done.output.split())
    assert "no fault can be carried out here" in said
    assert "slice: needs a better machine" in said
    assert not (tmp_path / "again").exists()


def test_a_run_that_was_meant_to_have_no_fault_is_repeated(tmp_path: Path) -> None:
    plan = Plan(4, 5, 3, 6.0, course=NOTHING)
    folder.save(tmp_path, plan, plan.run(4), "")
    found = live_plan(tmp_path)
    assert (list(found.schedule), found.proves_nothing) == ([], "")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    for arena in ("sim", "live"):
        done = _replay(tmp_path, "--arena", arena)
        assert done.exit_code == 254
        assert "is no folder of such a run" in done.output
