"""The parts of a simulated run that one fault may touch, and the end of its effect.

drawn by the run's seed    `seconds` None: each fault draws its own length, from the run's chance
planned (chaos/schedule)   `seconds` as planned, and chance of its own: the fault's details stay
                           as they are when other faults are left out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from chaos.sim.clients import ClientEnvironment
from chaos.sim.members import Churn
from chaos.sim.network import Network
from chaos.sim.node import SimNode
from chaos.sim.rot import Rot
from chaos.sim.scheduler import Scheduler
from chaos.sim.swarm import SwarmOptions

#: Shortest time between the beginning of a fault and what follows from it; seconds.
DELAY_MIN = 0.02


@dataclass(slots=True)
class Stage:
    """One fault's view of the run.

    Attributes:
        is_over: the liveness phase has begun; nothing that was to come happens any more.
        seconds: how long the fault lasts; None: it draws that itself.
        lasted: how long the newest one lasts, 0 for a blow.
    """

    scheduler: Scheduler
    random: Random
    options: SwarmOptions
    nodes: Sequence[SimNode]
    network: Network
    environment: ClientEnvironment
    rot: Rot
    churn: Churn | None
    is_over: Callable[[], bool]
    seconds: float | None = None
    lasted: float = 0.0

    def ends(self, action: Callable[[], None], seconds_max: float) -> None:
        """`action` ends the fault: when it was planned, or within `seconds_max`."""
        if self.seconds is None:
            self.lasted = max(self.lasted, self.later(action, seconds_max))
        else:
            self.lasted = self.seconds
            self._after(self.seconds, action)

    def later(self, action: Callable[[], None], seconds_max: float) -> float:
        """A step of the fault within `seconds_max`; returns after how many seconds."""
        delay = DELAY_MIN + self.random.random() * seconds_max
        self._after(delay, action)
        return delay

    def _after(self, delay: float, action: Callable[[], None]) -> None:
        self.scheduler.after(delay, lambda _: None if self.is_over() else action())

    def leaders(self) -> list[SimNode]:
        """Returns all nodes that believe that they lead."""
        return [node for node in self.nodes if node.leads]

    def others(self, node: SimNode) -> list[int]:
        """Numbers of all other machines."""
        return [other.index for other in self.nodes if other is not node]


#: Begins a fault on a machine that was chosen for it; some choose others, or hit all.
Injector = Callable[[Stage, SimNode], None]
