"""A node that was cut off comes back, and nobody has noticed (L1)."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from chaos.live.command import chaos
from chaos.sim.rejoins import Rejoins, run_rounds
from dledger.core import election


def test_nodes_that_come_back_disturb_nobody() -> None:
    found = run_rounds(20)
    assert (found.rounds, found.violations) == (20, 0), found.detail
    assert 0 < found.leaders_cut_off < 20
    assert found.caught_up_max < 10


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_thousand_rounds() -> None:
    said = CliRunner().invoke(chaos, ["rejoins", "--rounds", "1000", "--output", "json"])
    found = json.loads(said.output)
    assert (said.exit_code, found["rounds"], found["violations"]) == (0, 1000, 0), found["detail"]
    assert found["leaders_cut_off"] > 200


def test_without_a_vote_before_the_vote_the_return_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rule taken out: who is cut off raises its term, and comes back with it."""
    monkeypatch.setattr(election, "start_pre_vote", election.start_election)
    found = Rejoins(0, 3).run(30)
    assert found.violations == 1
    assert "disturbed" in found.detail
