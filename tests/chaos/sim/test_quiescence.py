"""Groups that fall silent, in the simulator: they do, and nothing is lost or stale by it."""

from __future__ import annotations

import dataclasses

import pytest

from chaos.sim.host_beats import QUIET_CHECK, HostBeats
from chaos.sim.network import CALM
from chaos.sim.profile import Profile
from chaos.sim.world import World
from chaos.testing import neighbours
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


def test_a_machine_without_a_host_is_heard_when_it_connects_to_a_silent_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stands for nothing, as a learner: only its connection tells the leader of it."""
    monkeypatch.setattr(neighbours, "COUNTS", (0,))  # a busy host misses beats, and its group wakes
    run = SimulatedRun(OBJECTS["counter"], 3, SILENT, nodes=3, clients=0)
    run._network.options = CALM
    for node in run.nodes:
        node.make, node.network = OBJECTS["counter"].make, run._network
    beats = HostBeats(run.scheduler, run.nodes, run._network, hostless=(2,))
    one, other, alone = run.nodes
    alone.config = dataclasses.replace(
        alone.config, election_timeout_min=500.0, election_timeout_max=600.0
    )
    beats.begin()
    one.start()
    other.start()
    run.scheduler.run_until(10.0)
    for moment in range(12):
        end = run.scheduler.now + 2 * QUIET_CHECK
        while not (one.replica.node.is_quiet and other.replica.node.is_quiet):
            run.scheduler.run_until(run.scheduler.now + 0.01)
            assert run.scheduler.now < end
        run.scheduler.run_until(run.scheduler.now + 0.01 * moment)
        alone.start()
        run.scheduler.run_until(run.scheduler.now + 1.0)
        assert alone.replica.node.leader in (one.id, other.id)
        alone.crash(power=False)
        run.scheduler.run_until(run.scheduler.now + 2.0)
