"""Schedules of live runs in the simulator: the same faults, at their times, on whom they name."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.faults import BY_NAME, KINDS, Target
from chaos.history import Outcome
from chaos.live.settings import load
from chaos.schedule import Planned, draw
from chaos.sim.clients import AppendReply
from chaos.sim.command import sim
from chaos.sim.course import NOTHING, Course
from chaos.sim.drawn import KINDS as DRAWN_KINDS
from chaos.sim.kinds.table import CATALOGUE, CATALOGUE_NAMES
from chaos.sim.network import CALM
from chaos.sim.played import Played
from chaos.sim.runner import Plan
from chaos.sim.schedules import planned, schedules_of
from chaos.sim.service import NodeService
from chaos.sim.world import RunResult, World, run_seed

NIGHTLY = Path(__file__).parents[3] / "conf" / "chaos-nightly.toml"


def _played(*schedule: Planned, seed: int = 1) -> RunResult:
    return run_seed(seed, 3, 8.0, course=Course(schedule=schedule))


@functools.cache
def _without_faults() -> str:
    return _played().trace_hash


def _fault(kind: str, target: Target, *, number: int = 0, at: float = 3.0) -> Planned:
    return Planned(number, at, kind, target, 1.5, 17 + number)


def test_the_catalogue_says_what_the_simulator_has() -> None:
    assert {kind.name for kind in KINDS if kind.simulated} == set(CATALOGUE)
    named = {CATALOGUE_NAMES.get(kind, kind) for kind in DRAWN_KINDS}
    assert named <= set(BY_NAME), "all that is drawn has a name there"


@pytest.mark.parametrize("kind", [kind for kind in CATALOGUE if BY_NAME[kind].safe])
def test_a_planned_fault_begins_when_it_was_planned_and_is_survived(kind: str) -> None:
    target = BY_NAME[kind].targets[-1]
    result = _played(_fault(kind, target))
    assert not result.violation, result.detail
    assert [(one.kind, one.at) for one in result.begun] == [(kind, 3.0)]
    assert result.trace_hash != _without_faults()


def test_it_lasts_as_long_as_planned_and_hits_whom_it_names() -> None:
    for seed in range(4):
        result = _played(
            _fault("pause", Target.LEADER),
            _fault("partition", Target.FOLLOWER, number=1, at=6.0),
            seed=seed,
        )
        assert [one.seconds for one in result.begun] == [1.5, 1.5]
        assert [one.led for one in result.begun] == [True, False]


def test_most_and_least_current_followers_are_others() -> None:
    world = World(3, 3, 8.0, course=Course(schedule=()))
    world.run()
    world.nodes[0].crash(power=False)  # a machine that is down has the least
    assert isinstance(world.nemesis, Played)
    random = world.random
    least = world.nemesis._choose(Target.LEAST_CURRENT, random)
    most = world.nemesis._choose(Target.MOST_CURRENT, random)
    assert least == [world.nodes[0]]
    assert most != least
    assert world.nemesis._choose(Target.ALL, random) == world.nodes


def test_kinds_that_only_real_processes_have_are_passed_over() -> None:
    result = _played(_fault("slice", Target.RANDOM), _fault("kill", Target.RANDOM, number=1))
    assert [one.number for one in result.begun] == [1]


def test_replayed_requests_really_arrive_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[AppendReply] = []  # each request has one of its own
    append = NodeService.append

    def count(
        service: NodeService, producer: int, sequence: int, count: int, reply: AppendReply
    ) -> None:
        replies.append(reply)
        append(service, producer, sequence, count, reply)

    monkeypatch.setattr(NodeService, "append", count)

    def doubled(*schedule: Planned) -> int:
        replies.clear()
        course = Course(schedule=schedule, calm=True)
        assert not run_seed(2, 3, 8.0, course=course).violation
        return len(replies) - len(set(replies))

    assert doubled() == 0
    assert doubled(*(_fault("replay", Target.RANDOM, at=at) for at in (1.0, 3.0, 5.0))) > 0


def test_a_client_that_vanishes_leaves_an_append_that_nobody_knows_of() -> None:
    schedule = tuple(_fault("client", Target.ALL, number=n, at=2.0 + n / 4) for n in range(16))
    world = World(2, 3, 8.0, course=Course(schedule=schedule, calm=True))
    assert not world.run().violation
    assert sum(op.outcome is Outcome.INFO for op in world.office.history) > 3


def test_a_calm_run_has_no_fault_at_all() -> None:
    world = World(3, 3, 8.0, course=NOTHING)
    result = world.run()
    assert world.network.options == CALM
    assert (result.violation, result.begun) == ("", ())
    done = CliRunner().invoke(sim, ["--seed", "3", "--nodes", "3", "--seconds", "8", "--calm"])
    assert result.trace_hash in done.output


def test_fault_free_runs_give_no_alarm() -> None:
    """In small; 1,000 of them, the bar of chaos.md 6, are counted in chaos/COUNTS.md."""
    for seed in range(6):
        result = Plan(0, 0, 0, 20.0, course=NOTHING).run(seed)
        assert not result.violation, result.detail
        assert result.acked > 100


def test_a_settings_file_draws_the_schedule_that_a_live_run_would_draw() -> None:
    settings = load(NIGHTLY)
    plan = Plan(5, 6, 3, 20.0, schedules=schedules_of("nightly", settings))
    kinds = tuple(kind for kind in settings.kinds if kind in CATALOGUE)
    assert plan.schedules is not None
    bounds = plan.schedules.bounds
    assert bounds.kinds == kinds
    drawn = draw(5, replace(settings.bounds(kinds), seconds=20.0))[1]
    assert drawn
    assert [(one.at, one.kind) for one in plan.run(5).begun] == [
        (one.at, one.kind) for one in drawn
    ]
    assert "--config nightly" in plan.again(5)


def test_what_a_seed_drew_is_a_schedule_too() -> None:
    result = Plan(4, 5, 3, 30.0).run(4)
    schedule = planned(Course(), result.begun)
    assert [one.number for one in schedule] == [one.number for one in result.begun]
    for one in schedule:
        assert one.target in BY_NAME[one.kind].targets
        assert Planned.from_fields(one.to_fields()) == one


@pytest.mark.parametrize(
    "words", [["--calm", "--config", str(NIGHTLY)], ["--config", "no-such-file"]]
)
def test_wrong_use_is_said(words: list[str]) -> None:
    assert CliRunner().invoke(sim, ["--seed", "1", *words]).exit_code == 2
