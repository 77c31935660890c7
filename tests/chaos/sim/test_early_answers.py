"""Answers before the commit (R22), simulated: only power and disks may take them back."""

from __future__ import annotations

import dataclasses
from functools import partial
from random import Random

import pytest

from chaos.sim import service, swarm
from chaos.sim.swarm import SwarmOptions
from chaos.sim.world import World
from dledger.core.types import Index
from dledger.replica.ports import Proposal

#: Faults after which a machine may lack what it has written and not synced.
TAKE_BACK = ("power-loss", "power-all", "failpoint", "bit-rot")
TAKE_BACK += ("io-error", "read-error", "disk-full")


@pytest.mark.parametrize("seed", range(6))
def test_what_a_majority_has_written_outlives_kills_cuts_and_clocks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Proposal] = []
    draw = swarm.draw

    def without_power(random: Random, nodes: int, kinds: tuple[str, ...]) -> SwarmOptions:
        options = draw(random, nodes, kinds)
        faults = {kind: 0.0 if kind in TAKE_BACK else w for kind, w in options.faults.items()}
        return dataclasses.replace(options, faults=faults)

    monkeypatch.setattr(swarm, "draw", without_power)
    monkeypatch.setattr(service, "Proposal", partial(Proposal, written=told.append))
    world = World(seed, 3, 40.0)
    result = world.run()
    assert not result.violation, result
    assert len(told) > 10, "hardly anybody was told"
    assert result.faults
    for node in world.nodes:
        assert node.storage is not None
        log = node.storage.log
        for proposal in told:
            for index in range(proposal.first, proposal.last + 1):
                assert log.entry(Index(index)).header.epoch == proposal.term, f"{index} taken back"
