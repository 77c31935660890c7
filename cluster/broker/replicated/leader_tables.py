"""What only a leader has and loses with its leadership: tables of uncommitted entries (R9)."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.produce.dedup import Cursors
from cluster.broker.produce.repeats import Answer, RepeatsWaiting, as_it_is
from cluster.core.apply import AppliedState
from cluster.core.parked.settling import Settling
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.store_time import StoreClock
from dledger.errors import OutcomeUnknown


class LeaderTables:
    """Made once; emptied whenever a leadership begins or ends. Only the clock goes on."""

    def __init__(self, state: AppliedState, bound: Callable[[Answer], Answer] = as_it_is) -> None:
        """`bound`: see `Owned.bound`."""
        self._state = state
        self.queue_offsets = LeaderQueueOffsets(state.queue_ends)
        self.cursors = Cursors(state.producers)
        self.repeats = RepeatsWaiting(bound)
        self.settling = Settling()
        self.clock = StoreClock()

    def drop(self) -> None:
        """Forget everything that is not applied; repeats that wait are told."""
        self.repeats.drop(
            OutcomeUnknown("leadership ended before the original was committed; send it again")
        )
        self.queue_offsets.drop()
        self.cursors.drop()
        self.settling.drop()
        self._state.producers.drop_uncommitted()
