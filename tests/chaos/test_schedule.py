"""Schedules are repeatable and never take more away than the cluster tolerates."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from chaos.faults import BY_NAME, CHOREOGRAPHIES, KINDS, Takes, Target, kind_of, kinds_named
from chaos.live.settings import load
from chaos.schedule import (
    RECOVERY_SECONDS,
    Bounds,
    Budget,
    Planned,
    draw,
    missing,
    one_of_each,
    tolerated,
)

CONF = Path(__file__).parents[2] / "conf"
SAFE = kinds_named(["all"])
COURSES = kinds_named(["choreographies"])


def bounds(nodes: int = 3, kinds: tuple[str, ...] = SAFE, *, swarm: bool = True) -> Bounds:
    return Bounds(120.0, nodes, kinds, 0.5, 1.5, swarm=swarm)


def test_the_catalogue_is_whole() -> None:
    assert [kind.number for kind in KINDS] == list(range(1, 39))
    assert len(BY_NAME) == 38 + len(CHOREOGRAPHIES)
    assert [kind.name for kind in KINDS if not kind.safe] == ["fsync-lies"]
    assert all(kind.text and kind.targets for kind in KINDS)
    with pytest.raises(ValueError, match="there is no fault 'tea'"):
        kind_of("tea")


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert draw(7, bounds()) == draw(7, bounds())
    assert draw(7, bounds())[1] != draw(8, bounds())[1]


def test_swarm_parameters_differ_between_seeds_and_leave_kinds_out() -> None:
    swarms = [draw(seed, bounds())[0][0] for seed in range(20)]
    assert len({swarm.leader_aim for swarm in swarms}) > 1
    assert all(0.0 in swarm.weights.values() for swarm in swarms)
    (even,) = draw(1, bounds(swarm=False))[0]
    assert set(even.weights.values()) == {1.0}


def test_the_weather_of_a_long_run_changes() -> None:
    long = replace(bounds(), seconds=400.0)
    for seed in range(20):
        weathers, schedule = draw(seed, long)
        assert [round(weather.since) // 90 for weather in weathers] == [0, 1, 2, 3, 4]
        for weather, after in pairwise(weathers):
            since, until = weather.since, after.since
            kinds = {one.kind for one in schedule if since <= one.at < until}
            assert kinds <= {kind for kind, weight in weather.weights.items() if weight}
            assert all(weather.weights[kind] or after.weights[kind] for kind in SAFE)


def test_a_run_within_one_weather_is_drawn_as_if_there_was_no_other() -> None:
    short = replace(bounds(), seconds=90.0)
    for seed in range(20):
        weathers, schedule = draw(seed, short)
        assert len(weathers) == 1
        assert schedule == draw(seed, replace(short, weather_seconds=1e9))[1]
    begins = [one for one in draw(3, replace(short, seconds=400.0))[1] if one.at < 80.0]
    assert begins == [one for one in draw(3, short)[1] if one.at < 80.0]


def test_two_hours_have_every_kind_many_times() -> None:
    """As conf/chaos-nightly.toml is run before an issue is closed, where every kind works."""
    settings = load(CONF / "chaos-nightly.toml")
    assert set(settings.kinds) == {*SAFE, *COURSES}
    for seed in range(20):
        schedule = draw(seed, replace(settings.bounds(settings.kinds), seconds=7200.0))[1]
        times = Counter(one.kind for one in schedule)
        assert min(times[kind] for kind in SAFE) >= 10, times
        assert min(times[kind] for kind in COURSES) >= 2, times
        hit = {(one.kind, one.target) for one in schedule}
        wanted = {(kind, target) for kind in SAFE for target in kind_of(kind).targets}
        assert len(hit & wanted) > 0.9 * len(wanted)
        assert {target for _, target in hit} == set(Target)


def test_members_come_and_go_while_another_node_is_missing() -> None:
    settings = load(CONF / "chaos-five.toml")
    assert (settings.nodes, tolerated(settings.nodes)) == (5, 2)
    groups: Counter[str] = Counter()
    for seed in range(20):
        schedule = draw(seed, replace(settings.bounds(settings.kinds), seconds=600.0))[1]
        beside = Counter(
            other.kind
            for one in schedule
            if one.kind == "membership"
            for other in schedule
            if other.at < one.at + one.seconds and one.at < other.at + other.seconds
            if missing(other, 5)
        )
        assert min(beside[kind] for kind in ("kill", "pause", "power-loss", "partition")) >= 1
        groups += Counter(one.kind for one in schedule if missing(one, 5) == 2)
        assert most_missing([one for one in schedule if missing(one, 5) < 5], 5) == 2
    assert min(groups[kind] for kind in ("kill", "partition", "ring")) >= 10, groups


def most_missing(schedule: list[Planned], nodes: int) -> int:
    """The largest number of nodes that miss at one time, recoveries counted."""
    moments = sorted(one.at for one in schedule)
    return max(
        sum(
            missing(one, nodes)
            for one in schedule
            if one.at <= moment < one.at + one.seconds + RECOVERY_SECONDS
        )
        for moment in moments
    )


@pytest.mark.parametrize("nodes", [3, 5])
def test_no_more_than_tolerated_is_taken_away(nodes: int) -> None:
    some = tuple(name for name in SAFE if Target.ALL not in kind_of(name).targets)
    worst = [most_missing(draw(seed, bounds(nodes, some))[1], nodes) for seed in range(60)]
    assert max(worst) == tolerated(nodes)  # it is used, and never exceeded


def test_a_blow_to_all_is_mixed_with_nothing() -> None:
    found = 0
    for seed in range(60):
        schedule = draw(seed, bounds())[1]
        for one in schedule:
            if missing(one, 3) == 3:
                found += 1
                assert not [
                    other
                    for other in schedule
                    if other is not one
                    and other.at < one.at + one.seconds + RECOVERY_SECONDS
                    and one.at < other.at + other.seconds + RECOVERY_SECONDS
                ]
    assert found > 10


def test_faults_stay_within_the_run_and_aim_as_their_kind_allows() -> None:
    for seed in range(30):
        for one in draw(seed, bounds())[1]:
            assert one.at >= 2.0
            assert one.at + one.seconds <= 118.0
            assert one.target in kind_of(one.kind).targets


def test_a_control_is_drawn_only_when_it_is_named() -> None:
    kinds = {one.kind for seed in range(40) for one in draw(seed, bounds())[1]}
    assert "fsync-lies" not in kinds
    assert {one.kind for one in draw(1, bounds(kinds=("fsync-lies",)))[1]} == {"fsync-lies"}


def test_each_kind_once() -> None:
    schedule = one_of_each(3, bounds())
    assert [one.kind for one in schedule] == list(SAFE)
    ends = [one.at + one.seconds for one in schedule]
    assert all(end < later.at for end, later in zip(ends, schedule[1:], strict=False))


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="no kind of fault"):
        draw(1, bounds(kinds=()))


def test_what_a_fault_takes() -> None:
    def planned(kind: str, target: Target) -> Planned:
        return Planned(0, 1.0, kind, target, 1.0, 0)

    assert missing(planned("latency", Target.ALL), 3) == 0
    assert missing(planned("kill", Target.LEADER), 3) == 1
    assert missing(planned("kill", Target.ALL), 3) == 3
    assert missing(planned("power-all", Target.ALL), 5) == 5
    assert [missing(planned("kill", Target.MINORITY), nodes) for nodes in (1, 3, 5)] == [1, 1, 2]
    assert [missing(planned("ring", Target.RANDOM), nodes) for nodes in (3, 5)] == [1, 2]
    assert kind_of("power-all").takes is Takes.EVERYTHING


@pytest.mark.virtual_time
async def test_the_budget_holds_what_the_plan_promised() -> None:
    budget = Budget(3)
    held: list[str] = []

    async def fault(name: str, count: int, end: asyncio.Event) -> None:
        async with budget.take(count):
            held.append(name)
            await end.wait()
        held.remove(name)

    ends = {name: asyncio.Event() for name in ("one", "two", "none", "all")}
    tasks = [asyncio.ensure_future(fault("one", 1, ends["one"]))]
    await asyncio.sleep(0)
    tasks += [
        asyncio.ensure_future(fault("two", 1, ends["two"])),
        asyncio.ensure_future(fault("none", 0, ends["none"])),
    ]
    await asyncio.sleep(0.01)
    assert held == ["one", "none"]  # a second node would be one too many
    ends["one"].set()
    await asyncio.sleep(0.01)
    assert held == ["none", "two"]
    tasks.append(asyncio.ensure_future(fault("all", 3, ends["all"])))
    ends["two"].set()
    await asyncio.sleep(0.01)
    assert held == ["none"]  # all nodes only while nothing else goes on
    ends["none"].set()
    await asyncio.sleep(0.01)
    assert held == ["all"]
    tasks.append(asyncio.ensure_future(fault("late", 0, ends["all"])))
    tasks.append(asyncio.ensure_future(fault("again", 3, ends["all"])))
    ends["all"].set()
    await asyncio.gather(*tasks)


@pytest.mark.virtual_time
async def test_a_blow_to_all_is_not_passed_over_for_ever() -> None:
    """Others come all the time, each before the one before has ended."""
    budget, blows = Budget(3), 0

    async def small() -> None:
        async with budget.take(0):
            await asyncio.sleep(0.02)

    async def blow() -> None:
        nonlocal blows
        async with budget.take(3):
            blows += 1

    tasks = [asyncio.ensure_future(small())]
    await asyncio.sleep(0.005)
    tasks.append(asyncio.ensure_future(blow()))
    for _ in range(10):
        await asyncio.sleep(0.01)
        tasks.append(asyncio.ensure_future(small()))
    assert blows == 1
    await asyncio.gather(*tasks)
