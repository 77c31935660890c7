"""A RaftNode of a group with lease reads: the same rules, by a clock that is looked at (lease.py).

Beside `RaftNode`, so that groups without leases pay nothing per event for them.
"""

from __future__ import annotations

from dledger.core import lease
from dledger.core.config import CoreConfig
from dledger.core.effects import Effect
from dledger.core.events import Event
from dledger.core.node import RaftNode
from dledger.core.types import Role


class LeasingNode(RaftNode):
    """Sees the clock jump, and keeps a promise that an earlier life may have given."""

    def start(self, now: float) -> list[Effect]:
        """As `RaftNode.start`; gives no vote for a whole lease, as an earlier process may have
        promised that.
        """
        effects = super().start(now)
        lease.keep(self.state)
        return effects

    def handle(self, event: Event, now: float) -> list[Effect]:
        """As `RaftNode.handle`, after the lease rules heard of a `now` that ran back or jumped
        ahead.
        """
        state = self.state
        step = now - state.now
        if step < 0:
            lease.ran_back(state)
            effects = super().handle(event, now)
            lease.ran_back(state)  # what it sent was not sent at the time that it knows
            return effects
        if step > state.config.clock_step_max:
            lease.jumped_ahead(state, step)
        return super().handle(event, now)

    def deadline(self) -> float:
        """As `RaftNode.deadline`, and soon enough to notice a jump of the clock while a promise may
        hold.
        """
        due = super().deadline()
        state = self.state
        if state.has_promised() and state.role is not Role.FAILED:
            due = min(due, state.now + state.config.clock_step_max / 2)
        return due


def node_class(config: CoreConfig) -> type[RaftNode]:
    """Decided once, when a replica is made."""
    return LeasingNode if config.lease_reads else RaftNode
