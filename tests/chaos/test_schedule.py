"""Schedules are repeatable and never take more away than the cluster tolerates."""

from __future__ import annotations

import asyncio

import pytest

from chaos.faults import BY_NAME, CHOREOGRAPHIES, KINDS, Takes, Target, kind_of
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

SAFE = tuple(kind.name for kind in KINDS if kind.safe)


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
    swarms = [draw(seed, bounds())[0] for seed in range(20)]
    assert len({swarm.leader_aim for swarm in swarms}) > 1
    assert all(0.0 in swarm.weights.values() for swarm in swarms)
    even = draw(1, bounds(swarm=False))[0]
    assert set(even.weights.values()) == {1.0}


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
    some = tuple(name for name in SAFE if name not in {"kill", "power-all"})
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
    assert kind_of("power-all").takes is Takes.EVERYTHING


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
    ends["all"].set()
    await asyncio.gather(*tasks)
