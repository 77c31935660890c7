"""Simulated groups whose members come, go and lose their disks."""

from __future__ import annotations

import pytest

from chaos.sim.members import Churn, MemberWatch
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.world import World

LONG = pytest.mark.long


@pytest.mark.parametrize(
    "seed",
    [0, 7, pytest.param(32, marks=LONG), pytest.param(41, marks=LONG)],
)
def test_a_seed_with_churn_is_clean(seed: int) -> None:
    plan = Plan(seed, seed + 1, 0, 40.0, profile=Profile(membership=True))
    result = plan.run(seed)
    assert not result.violation, plan.again(seed)
    assert result.acked > 0


def test_the_group_really_changes() -> None:
    done: dict[str, int] = {}
    for seed in range(5):
        world = World(seed, 3, 40.0, profile=Profile(membership=True))
        result = world.run()
        assert not result.violation
        assert isinstance(world.churn, Churn)
        for kind, count in world.churn.done.items():
            done[kind] = done.get(kind, 0) + count
    assert done.get("add", 0) >= 2
    assert done.get("remove", 0) >= 2
    assert done.get("readmit", 0) >= 1


def test_the_judge_looks_at_every_configuration() -> None:
    seen = 0
    for seed in range(3):
        world = World(seed, 3, 30.0, profile=Profile(membership=True))
        result = world.run()
        assert not result.violation
        assert isinstance(world.watch.members, MemberWatch)
        assert world.watch.members.splits() == []
        seen += len(world.watch.members._committed)
    assert seen >= 6


def test_a_seed_with_churn_gives_the_same_run_again() -> None:
    plan = Plan(5, 6, 0, 15.0, profile=Profile(membership=True))
    assert plan.run(5).trace_hash == plan.run(5).trace_hash
