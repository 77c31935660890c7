"""Groups that fall silent, in the simulator: they do, and nothing is lost or stale by it."""

from __future__ import annotations

import pytest

from chaos.sim.profile import Profile
from chaos.sim.world import World
from chaos.testing.cluster import SILENT, SimulatedRun
from chaos.testing.objects import OBJECTS


@pytest.mark.parametrize("seed", [1, 2, 5, 8])
def test_groups_fall_silent_between_operations(seed: int) -> None:
    world = World(seed, 3, 20.0, profile=Profile(quiescence=True))
    result = world.run()
    assert not result.violation, f"{result.violation}: {result.detail}"
    assert world.hosts is not None
    assert world.hosts.silences > 3


@pytest.mark.parametrize("name", ["kv", "lock"])
def test_objects_of_groups_that_fall_silent(name: str) -> None:
    silences = 0
    for seed in (1, 2, 4):
        run = SimulatedRun(OBJECTS[name], seed, SILENT, nodes=3, clients=2)
        report = run.run()
        assert report.answered > 3
        assert run.hosts is not None
        silences += run.hosts.silences
    assert silences > 60
