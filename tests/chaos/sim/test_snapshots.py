"""Simulated clusters whose logs lose their beginnings: who needs them is sent the state."""

from __future__ import annotations

import pytest

from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.states import SavingMachine
from chaos.sim.trimming import Trimmer
from chaos.sim.world import World


@pytest.mark.parametrize(("seed", "membership"), [(0, False), (6, False), (6, True), (8, True)])
def test_a_seed_whose_logs_lose_their_beginnings_is_clean(seed: int, membership: bool) -> None:
    plan = Plan(seed, seed + 1, 3, 30.0, profile=Profile(membership, snapshots=True))
    result = plan.run(seed)
    assert not result.violation, plan.again(seed)
    assert result.acked > 0


def test_beginnings_really_go_and_states_are_really_sent() -> None:
    begun = restored = 0
    for seed in range(4):
        world = World(seed, 3, 30.0, profile=Profile(snapshots=True))
        assert not world.run().violation
        assert isinstance(world.trimmer, Trimmer)
        begun += world.trimmer.begun
        machines = [node.machine for node in world.nodes]
        restored += sum(m.restored for m in machines if isinstance(m, SavingMachine))
    assert begun >= 10
    assert restored >= 1


def test_a_seed_with_snapshots_gives_the_same_run_again() -> None:
    plan = Plan(5, 6, 0, 10.0, profile=Profile(snapshots=True))
    assert plan.run(5).trace_hash == plan.run(5).trace_hash
    assert "--snapshots" in plan.again(5)
    assert plan.counted_as == "drawn --snapshots"
