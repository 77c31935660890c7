"""Tables of uncommitted entries, which only a leader has and which end with its leadership (R9)."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.write.dedup import Cursors
from cluster.broker.kernel.write.repeats import Answer, RepeatsWaiting, as_it_is
from cluster.core.apply import AppliedState
from cluster.core.delay.settling import Settling
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.store_time import StoreClock
from dledger.errors import OutcomeUnknown
from dledger.producers.table import ProducerTable


class LeaderTables:
    """Made once; emptied whenever a leadership begins or ends. Only the clock goes on."""

    def __init__(
        self,
        state: AppliedState,
        parts: LeadershipParts,
        bound: Callable[[Answer], Answer] = as_it_is,
    ) -> None:
        """`bound`: see `Owned.bound`."""
        self.repeats = parts.add(RepeatsWaiting(bound), _tell_unknown)
        self.queue_offsets = parts.add(
            LeaderQueueOffsets(state.queue_ends), LeaderQueueOffsets.drop
        )
        self.cursors = parts.add(Cursors(state.producers), Cursors.drop)
        self.settling = parts.add(Settling(), Settling.drop)
        parts.add(state.producers, ProducerTable.drop_uncommitted)
        self.clock = StoreClock()


def _tell_unknown(repeats: RepeatsWaiting) -> None:
    repeats.drop(
        OutcomeUnknown("leadership ended before the original was committed; send it again")
    )
