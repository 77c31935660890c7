"""The end of a run of a machine: what a node lacks is told, though no command comes any more."""

from __future__ import annotations

import pytest

from chaos.sim.node import SimNode
from chaos.sim.silence import BLOWS, Action, Silence
from chaos.testing.cluster import MachineViolation, run_subject
from chaos.testing.objects import OBJECTS


def never_ends(_: Silence, node: SimNode) -> Action:
    node.crash(power=False)
    return lambda: None


def test_a_machine_that_stays_behind_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BLOWS:
        monkeypatch.setitem(BLOWS, name, never_ends)
    with pytest.raises(MachineViolation, match=r"liveness: nodes do not become equal after .* no "):
        run_subject(OBJECTS["counter"], 1)
