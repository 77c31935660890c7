"""Schedules of live runs in the simulator: the same faults, at their times, on whom they name."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from chaos.faults import BY_NAME, KINDS, Target
from chaos.history import Outcome
from chaos.live.settings import load
from chaos.schedule import Planned, draw
from chaos.sim.clients import AppendReply
from chaos.sim.command import sim
from chaos.sim.course import NOTHING, Course
from chaos.sim.kinds.table import CATALOGUE, CATALOGUE_NAMES
from chaos.sim.network import CALM
from chaos.sim.random_nemesis import KINDS as DRAWN_KINDS
from chaos.sim.runner import Plan
from chaos.sim.schedules import planned, schedules_of
from chaos.sim.scripted_nemesis import HAND_OVER_SECONDS_MAX
from chaos.sim.service import NodeService
from chaos.sim.targets import chosen
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
    target = next(one for one in BY_NAME[kind].targets[::-1] if one is not Target.NEW_LEADER)
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
    leaders = [node for node in world.nodes if node.leads]
    random = world.random
    least = chosen(Target.LEAST_CURRENT, world.nodes, leaders, random)
    most = chosen(Target.MOST_CURRENT, world.nodes, leaders, random)
    assert least == [world.nodes[0]]
    assert most != least
    assert chosen(Target.ALL, world.nodes, leaders, random) == world.nodes


def test_who_is_caught_up_is_up_and_a_voter_voted() -> None:
    world = World(3, 5, 8.0, course=Course(schedule=()))
    world.run()
    leaders = [node for node in world.nodes if node.leads]
    (leader,) = leaders
    down, *others = [node for node in world.nodes if node is not leader]
    down.crash(power=False)
    for seed in range(10):
        random = Random(seed)
        (caught_up,) = chosen(Target.CATCHING_UP, world.nodes, leaders, random)
        assert caught_up in others
        (voter,) = chosen(Target.LAST_VOTER, world.nodes, leaders, random)
        assert voter.replica is not None
        assert voter.replica.node.status().voted_for == leader.id
        minority = chosen(Target.MINORITY, world.nodes, leaders, random)
        assert len(minority) == 2


def test_a_new_leader_is_hit_as_soon_as_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, 3, 8.0, course=Course(schedule=(_fault("kill", Target.NEW_LEADER),)))
    led: list[set[str]] = []
    transfer = NodeService.transfer

    def seen(service: NodeService, to: int | None) -> None:
        led.append({node.id for node in world.nodes if node.leads})
        transfer(service, to)

    monkeypatch.setattr(NodeService, "transfer", seen)
    assert not world.run().violation
    assert world.nemesis is not None
    (begun,) = world.nemesis.begun
    assert (len(led), begun.led) == (1, True)
    assert world.nodes[begun.machine].id not in led[0], "who led before handed over"
    assert 3.0 < begun.at < 3.0 + HAND_OVER_SECONDS_MAX


def test_a_new_leader_that_is_left_out_hands_nothing_over() -> None:
    def hash_without(target: Target) -> str:
        course = Course(schedule=(_fault("kill", target),), kept=frozenset())
        result = run_seed(1, 3, 8.0, course=course)
        assert result.begun == ()
        return result.trace_hash

    assert hash_without(Target.NEW_LEADER) == hash_without(Target.RANDOM)


def test_five_nodes_have_rings_and_bridges_three_have_an_edge() -> None:
    def cut_off(nodes: int, chance: int) -> int:
        fault = Planned(0, 3.0, "ring", Target.RANDOM, 4.0, chance)
        world = World(2, nodes, 4.0, course=Course(schedule=(fault,)))
        shut: set[tuple[int, int]] = set()
        world.scheduler.at(
            3.5,
            lambda _: shut.update(
                (a, b)
                for (a, b, _), pipe in world.network.pipes.items()
                if pipe.blocked or pipe.frozen is not None
            ),
        )
        world.run()
        return len(shut)

    assert {cut_off(3, chance) for chance in range(6)} == {2}
    assert {cut_off(5, chance) for chance in range(12)} == {2, 8, 10}


def test_kinds_that_only_real_processes_have_are_passed_over() -> None:
    result = _played(_fault("slice", Target.RANDOM), _fault("kill", Target.RANDOM, number=1))
    assert [one.number for one in result.begun] == [1]
    line = ["--seed", "1", "--nodes", "3", "--seconds", "8", "--config", str(NIGHTLY)]
    done = CliRunner().invoke(sim, line)
    assert "skipped, as the simulator does not have them: slice, " in done.output
    assert "nats-amnesia-pause" in done.output


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
    assert sum(op.outcome is Outcome.INFO for op in world.environment.history) > 3


def test_a_calm_run_has_no_fault_at_all() -> None:
    world = World(3, 3, 8.0, course=NOTHING)
    result = world.run()
    assert world.network.options == CALM
    assert (result.violation, result.begun) == ("", ())
    done = CliRunner().invoke(sim, ["--seed", "3", "--nodes", "3", "--seconds", "8", "--calm"])
    assert result.trace_hash in done.output


def test_fault_free_runs_give_no_alarm() -> None:
    """In small; `dledger sim --seeds 0..1000 --calm --counts` counts the bar of 1,000 seeds."""
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
    begun = plan.run(5).begun
    assert [one.kind for one in begun] == [one.kind for one in drawn]
    for one, wanted in zip(begun, drawn, strict=True):
        waits = HAND_OVER_SECONDS_MAX if wanted.target is Target.NEW_LEADER else 0.0
        assert wanted.at <= one.at <= wanted.at + waits
    assert "--config nightly" in plan.again(5)


def test_schedules_of_some_seeds_have_every_kind_that_the_simulator_has() -> None:
    """Those, too, that no seed draws by itself: replay, client, cpu, rollback, membership, …"""
    schedules = schedules_of("nightly", load(NIGHTLY))
    kinds = {one.kind for seed in range(20) for one in schedules.of(seed, 3, 60.0)}
    assert kinds == {kind for kind in CATALOGUE if BY_NAME[kind].safe}


def test_what_a_seed_drew_is_a_schedule_too() -> None:
    result = Plan(4, 5, 3, 30.0).run(4)
    schedule = planned(Course(), result.begun)
    assert [one.number for one in schedule] == [one.number for one in result.begun]
    for one in schedule:
        assert one.target in BY_NAME[one.kind].targets
        assert Planned.from_fields(one.to_fields()) == one


@pytest.mark.parametrize(
    "words",
    [
        ["--calm", "--config", str(NIGHTLY)],
        ["--config", "no-such-file"],
        ["--config", str(NIGHTLY), "--seconds", "3"],  # no fault fits into it
    ],
)
def test_wrong_use_is_said(words: list[str]) -> None:
    assert CliRunner().invoke(sim, ["--seed", "1", *words]).exit_code == 254
