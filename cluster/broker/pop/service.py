"""The parts of pop consumption of one broker, and what leaderships do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.consume.wanted import Subscriptions
from cluster.broker.pop.popping import Popping
from cluster.broker.pop.reviving import Reviving
from cluster.broker.pop.waiting import PopWaits, Waiter
from cluster.broker.pop.writer import ReviveWriter
from cluster.core.pop.in_flight import InFlight


@dataclass(slots=True, eq=False)
class PopService:
    """`settling`: (checkpoint, offset) of messages whose fate is on its way into the log."""

    popping: Popping
    waits: PopWaits
    writer: ReviveWriter
    reviving: Reviving
    subscriptions: Subscriptions
    settling: InFlight[tuple[int, int]]
    turn: int = 0

    def next_queue(self) -> int:
        """The revive queue of the next pop: each in turn."""
        self.turn += 1
        return self.turn

    def began(self) -> None:
        """A leadership begins; its state shows everything earlier ones logged."""
        self.reviving.begin()

    def dropped(self) -> None:
        """A leadership began or ended: what was not applied is not known any more (R9)."""
        self.popping.cursors.drop()
        self.popping.busy.drop()
        self.settling.drop()

    def ended(self, route: Callable[[Waiter], None]) -> None:
        """Who waited here waits at the next leader."""
        for waiter in self.waits.drop_all():
            route(waiter)
