"""Simulated groups whose nodes look at their disks: hung ones lose the lead, no message is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from chaos.sim.disk_duty import DiskDuty
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.world import World
from dledger.core.types import DiskHealth

LONG = pytest.mark.long


@pytest.mark.parametrize("seed", [15, pytest.param(11, marks=LONG), pytest.param(25, marks=LONG)])
def test_a_seed_whose_nodes_look_at_their_disks_is_clean(seed: int) -> None:
    plan = Plan(seed, seed + 1, 0, 40.0, profile=Profile(sick_disks=True))
    result = plan.run(seed)
    assert not result.violation, plan.again(seed)
    assert result.acked > 0


def test_disks_really_hang_fill_and_slow_down_and_are_trusted_again() -> None:
    seen: Counter[DiskHealth] = Counter()
    for seed in (8, 9):
        world = World(seed, 3, 40.0, profile=Profile(sick_disks=True))
        assert not world.run().violation
        for node in world.nodes:
            (duty,) = node.duties
            assert isinstance(duty, DiskDuty)
            seen.update(duty.seen)
    assert seen[DiskHealth.STALLED] > 10
    assert seen[DiskHealth.FULL] > 3
    assert seen[DiskHealth.SLOW] > 3
    assert seen[DiskHealth.RECOVERING] > 10
    assert seen[DiskHealth.GOOD] > seen[DiskHealth.STALLED]
