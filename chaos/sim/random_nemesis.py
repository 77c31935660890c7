"""Faults that a run's seed draws as the run goes on: the simulator's own, harsher than live ones.

Leaders are aimed at more often than chance would, and a machine dies more often while its disk is
busy. Nothing holds back: any number of machines may be hit at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from chaos.sim.kinds.stage import Injector
from chaos.sim.kinds.table import RANDOM_KINDS
from chaos.sim.members import KINDS as MEMBER_KINDS
from chaos.sim.members import LOSS_KIND
from chaos.sim.nemesis import Nemesis
from chaos.sim.node import SimNode

#: What a seed draws from; the order is part of what a seed means.
KINDS = (
    "kill",
    "kill-all",
    "crash-loop",
    "stop",
    "power-loss",
    "power-all",
    "failpoint",
    "pause",
    "disk-slow",
    "disk-hang",
    "io-error",
    "read-error",
    "disk-full",
    "bit-rot",
    "partition",
    "isolate-leader",
    "one-way",
    "edge-cut",
    "ring",
    "flap",
    "clog",
    "old-leader-returns",
    "reset",
    "clock",
    "transfer",
    "figure-8",
)


class RandomNemesis(Nemesis):
    """Begins a fault every now and then, until `heal_all`.

    Attributes:
        kinds: what a seed draws from, where no members change.
        injectors: how each is done.
    """

    kinds: ClassVar[tuple[str, ...]] = KINDS
    injectors: ClassVar[Mapping[str, Injector]] = RANDOM_KINDS

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        weights = self._options.faults
        kinds = self.kinds if self._churn is None else (*KINDS, *MEMBER_KINDS, LOSS_KIND)
        self._kinds = [kind for kind in kinds if weights.get(kind)]
        self._weights = [weights[kind] for kind in self._kinds]
        self._number = 0
        self._schedule_next()

    def _schedule_next(self) -> None:
        least, most = self._options.fault_gap_min, self._options.fault_gap_max
        gap = least + self._random.random() * (most - least)
        known = self._course.begun
        if not known:
            self._scheduler.after(gap, self._begin)
        elif self._number < len(known):
            self._scheduler.at(known[self._number].at, self._begin)

    def _begin(self, _: None) -> None:
        if self._healed:
            return
        self._look_after_machines()
        kind = self._random.choices(self._kinds, self._weights)[0]
        victim = self._victim()
        number, known = self._number, self._course.begun
        if known:  # drawn all the same: what is drawn behind it must not shift
            kind, victim = known[number].kind, self._nodes[known[number].machine]
        self._number += 1
        self._carry_out(number, kind, self.injectors[kind], self._stage, [victim])
        self._schedule_next()

    def _victim(self) -> SimNode:
        leaders = self._stage.leaders()
        if leaders and self._random.random() < self._options.leader_aim:
            return self._random.choice(leaders)
        return self._random.choice(self._nodes)
