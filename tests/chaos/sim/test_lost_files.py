"""Simulated groups of which one voter at a time loses both copies of a small file."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.sim.members import LOSS_KIND
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.world import World
from dledger.log import log_start

LOST_FILES = Profile(lost_files=True)
FILES = "hardstate", "flushmark", "truncate", *log_start.FILE_NAMES


@pytest.mark.parametrize("seed", [6, pytest.param(5, marks=pytest.mark.long)])
def test_a_seed_with_lost_files_is_clean(seed: int) -> None:
    plan = Plan(seed, seed + 1, 0, 25.0, profile=LOST_FILES)
    result = plan.run(seed)
    assert not result.violation, plan.again(seed)
    assert result.acked > 0
    assert result.faults.get(LOSS_KIND, 0) > 0
    assert "--lost-files" in plan.again(seed)


def test_every_small_file_is_lost_and_those_that_forgot_are_readmitted() -> None:
    """By the first seeds that lose them: which these are changes with every rule."""
    files, lost, readmitted = set(FILES), set[str](), 0
    for seed in range(1, 40):
        world = World(seed, 3, 25.0, profile=LOST_FILES)
        assert not world.run().violation
        assert world.churn is not None
        lost |= {Path(name).name for name in world.churn.lost_files}
        readmitted += world.churn.done.get("readmit", 0)
        if lost == files and readmitted >= 2:  # two that forgot
            break
    assert (lost, readmitted >= 2) == (files, True)
