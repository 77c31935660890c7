"""Carries faults out in one run, and ends them. `chaos/sim/kinds` defines the effect of each kind.

Every fault that is begun has its end in the schedule; `heal_all` ends what is left.

Fault atlas: rotten bytes on at most a minority, each undone by the operator before the final
judgement; everything else may hit any number of nodes at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from chaos.sim.clients import ClientEnvironment
from chaos.sim.course import Begun, Course
from chaos.sim.kinds.stage import Injector, Stage
from chaos.sim.members import Churn
from chaos.sim.network import Network
from chaos.sim.node import SimNode
from chaos.sim.operator import Operator
from chaos.sim.rot import Rot
from chaos.sim.scheduler import Scheduler
from chaos.sim.swarm import SwarmOptions


class Nemesis:
    """Base of `RandomNemesis` and `ScriptedNemesis`, which differ in how they choose
    the next fault.

    Attributes:
        begun: what was carried out, in order.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        options: SwarmOptions,
        nodes: Sequence[SimNode],
        network: Network,
        environment: ClientEnvironment,
        note: Callable[[str, str], None],
        churn: Churn | None,
        course: Course,
    ) -> None:
        self.begun: list[Begun] = []
        self._scheduler, self._random, self._options = scheduler, random, options
        self._nodes, self._network, self._environment, self._note = (
            nodes,
            network,
            environment,
            note,
        )
        self._churn, self._course = churn, course
        self._healed = self._salted = False
        self._rot = Rot(nodes, churn)
        self._operator = Operator(nodes, random, self._rot)
        self._stage = Stage(
            scheduler,
            random,
            options,
            nodes,
            network,
            environment,
            self._rot,
            churn,
            lambda: self._healed,
        )

    def _look_after_machines(self) -> None:
        self._operator.come_by()
        if self._churn is not None:
            self._churn.tend()

    def _carry_out(
        self, number: int, kind: str, injector: Injector, stage: Stage, victims: Sequence[SimNode]
    ) -> None:
        if self._course.leaves_out(number):
            self._salt()
            return
        self._note(kind, ",".join(node.id for node in victims))
        first, at = victims[0], self._scheduler.now
        stage.lasted = 0.0
        # First of all: a fault that shows a violation is one of those that were begun.
        self.begun.append(Begun(number, at, kind, first.index, first.leads, 0.0))
        for victim in victims:
            injector(stage, victim)
        self.begun[-1] = self.begun[-1]._replace(seconds=round(stage.lasted, 3))

    def _salt(self) -> None:
        """The first fault that is left out: from here on it is another run."""
        if not self._salted:
            self._salted = True
            for _ in range(self._course.salt):
                self._random.random()

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind was begun."""
        return dict(Counter(one.kind for one in self.begun))

    def replaced(self, node: SimNode) -> None:
        """Forgets the rot on the node's old disk, which a new disk has replaced."""
        self._rot.forget(node)

    def heal_all(self) -> None:
        """End every fault: the liveness phase begins."""
        self._healed = True
        self._environment.replay = 0.0
        self._operator.heal_all(self._network)
