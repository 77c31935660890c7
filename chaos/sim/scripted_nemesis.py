"""Faults of a schedule that was drawn beforehand (chaos/schedule.py), as live runs have them.

Each has chance of its own, so that its details stay as they are when others are left out. Whom it
hits is decided when it begins, as in `chaos/live/nemesis.py`. Kinds that the simulator does not
have are passed over: `chaos/faults.py` says which those are.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from chaos.faults import Target
from chaos.schedule import Planned
from chaos.sim.kinds.table import CATALOGUE
from chaos.sim.nemesis import Nemesis
from chaos.sim.node import SimNode
from chaos.sim.service import NodeService
from chaos.sim.targets import chosen

#: The operator looks after the machines as often; seconds.
ROUND_SECONDS = 1.0
#: How long a hand-over is waited for, and how often is looked who leads; seconds.
HAND_OVER_SECONDS_MAX = 2.0
LOOK_SECONDS = 0.01


class ScriptedNemesis(Nemesis):
    """Begins each fault of the course's schedule at its time, until `heal_all`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for planned in self._course.schedule or ():
            if planned.kind in CATALOGUE:
                self._scheduler.at(planned.at, self._begin, planned)
        if self._course.schedule:
            self._scheduler.after(ROUND_SECONDS, self._go_round)

    def _begin(self, planned: Planned) -> None:
        if self._healed:
            return
        left_out = self._course.leaves_out(planned.number)  # then nobody hands over either
        if planned.target is Target.NEW_LEADER and not left_out:
            self._hand_over(planned)
        else:
            self._hit(planned, [])

    def _hand_over(self, planned: Planned) -> None:
        """Makes the leader hand over and hits the new leader; the old one if no other node leads in
        time."""
        before = self._stage.leaders()
        for node in before:
            NodeService(node).transfer(None)
        end = self._scheduler.now + HAND_OVER_SECONDS_MAX

        def look(_: None) -> None:
            new = [node for node in self._stage.leaders() if node not in before]
            if new or not before or self._scheduler.now >= end:
                self._hit(planned, new[:1])
            else:
                self._scheduler.after(LOOK_SECONDS, look)

        look(None)

    def _hit(self, planned: Planned, victims: list[SimNode]) -> None:
        """Carries out the fault on `victims`; if there are none, on nodes chosen by the fault's
        target."""
        if self._healed:
            return
        random = Random(planned.chance)
        stage = replace(self._stage, random=random, seconds=planned.seconds)
        if not victims:
            victims = chosen(planned.target, self._members(), self._stage.leaders(), random)
        self._carry_out(planned.number, planned.kind, CATALOGUE[planned.kind], stage, victims)

    def _go_round(self, _: None) -> None:
        if not self._healed:
            self._look_after_machines()
            self._scheduler.after(ROUND_SECONDS, self._go_round)

    def _members(self) -> list[SimNode]:
        """Without spare machines."""
        if self._churn is None:
            return list(self._nodes)
        return self._churn.members() or list(self._nodes)
