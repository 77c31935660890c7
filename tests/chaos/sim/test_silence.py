"""The silent end of a run: faults while no client asks, and what they leave behind is told."""

from __future__ import annotations

import pytest

from chaos.sim import silence
from chaos.sim.node import SimNode
from chaos.sim.silence import BLOWS, DISK_BLOWS, ROUNDS, Action, Silence
from chaos.sim.world import World


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Silence]:
    """The silent ends of the worlds that a test runs."""
    made: list[Silence] = []

    def note(self: Silence, *arguments: object) -> None:
        made.append(self)
        play(self, *arguments)  # type: ignore[arg-type]

    play = Silence.play
    monkeypatch.setattr(Silence, "play", note)
    return made


def test_each_fault_is_begun_by_some_seed_and_clients_ask_in_some_rounds(
    played: list[Silence],
) -> None:
    lacking = {*BLOWS, *DISK_BLOWS}
    for seed in range(60):
        result = World(seed, 3, 1.0).run()
        assert result.violation in ("", "nothing-acknowledged"), result
        lacking -= played[-1].counts.keys()
        if not lacking:
            break
    assert not lacking
    assert 0 < sum(one.asked for one in played) < ROUNDS * len(played)


def never_ends(_: Silence, node: SimNode) -> Action:
    node.crash(power=False)
    return lambda: None


def test_a_node_that_stays_behind_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.sim.world.BLOWS", {"kill": never_ends})
    monkeypatch.setattr("chaos.sim.world.DISK_BLOWS", {})
    assert World(1, 3, 1.0).run().violation == "liveness-in-silence"


def test_the_run_before_is_not_changed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a chance of its own, so a seed's faults and operations are as they were."""
    whole = World(3, 3, 4.0).run()
    monkeypatch.setattr(silence, "ROUNDS", 0)
    without = World(3, 3, 4.0).run()
    assert whole.begun == without.begun
    assert whole.faults == without.faults
    assert whole.operations >= without.operations
