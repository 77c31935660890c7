"""The parts of pop consumption of one broker."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.broker.kernel.read.wanted import Subscriptions
from cluster.broker.pop.popping import Popping
from cluster.broker.pop.reviving import Reviving
from cluster.broker.pop.waiting import PopWaits
from cluster.broker.pop.writer import ReviveWriter
from cluster.core.pop.in_flight import InFlight


@dataclass(slots=True, eq=False)
class PopService:
    """`settling`: (checkpoint, offset) of messages with a change on its way into the log."""

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
