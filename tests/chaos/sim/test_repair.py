"""Simulated groups whose nodes mend their own logs: nobody restores what rots, nothing is lost."""

from __future__ import annotations

import pytest

from chaos.sim.profile import Profile
from chaos.sim.world import World


@pytest.mark.parametrize("seed", [36, 618])
def test_what_rots_is_mended_by_the_nodes_and_nothing_is_lost(seed: int) -> None:
    """By the end no flipped bit of a log is left, and no operator has put one back.

    In the first of these runs a node starts on rot without its index files, too.
    """
    world = World(seed, 3, 40.0, profile=Profile(repair=True))
    result = world.run()
    assert not result.violation
    assert result.acked > 0
    assert sum(node.disk.healed for node in world.nodes) >= 1
    assert not any(node.disk.rotten("data") for node in world.nodes)
