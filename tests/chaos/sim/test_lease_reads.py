"""Simulated groups that read by leases: never stale while clocks keep the bound, and only then."""

from __future__ import annotations

import pytest

from chaos.sim.profile import Profile
from chaos.sim.world import RunResult, World
from dledger.core import lease
from dledger.core.state import State

LONG = pytest.mark.long


def run(seed: int, drift_max: float | None = None) -> RunResult:
    world = World(seed, 3, 20.0, profile=Profile(lease_reads=True))
    assert world.clocks is not None
    if drift_max is not None:
        world.clocks.drift_max = drift_max
    return world.run()


@pytest.mark.parametrize("seed", [9, pytest.param(24, marks=LONG)])
def test_clocks_drift_jump_and_run_back_and_no_read_is_stale(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []
    holds = lease.holds

    def counted(state: State) -> bool:
        served.append(holds(state))
        return served[-1]

    monkeypatch.setattr(lease, "holds", counted)
    result = run(seed)
    assert not result.violation, result.detail
    assert sum(served) > len(served) / 2 > 50, "most reads of a leader are served by its lease"


def test_control_clocks_beyond_the_bound_are_found() -> None:
    """The judge sees a lease that lasts too long: such as it is, seeds 9 and 24 show it."""
    seeds = (9, 24, *range(50))
    assert any(run(seed, drift_max=0.9).violation == "stale-read" for seed in seeds)


def test_beside_changes_of_the_group_snapshots_and_sick_disks() -> None:
    profile = Profile(membership=True, snapshots=True, sick_disks=True, lease_reads=True)
    result = World(3, 5, 15.0, profile=profile).run()
    assert not result.violation, result.detail
