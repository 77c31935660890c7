"""The ports that requests of delayed messages use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.delay.delays import Delays
from cluster.broker.delay.outcomes import OutcomeWriter
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState


@dataclass(frozen=True, slots=True, eq=False)
class DelayPorts:
    """Made once, by the wiring of the broker."""

    delays: Delays
    outcomes: OutcomeWriter
    config: BrokerConfig
    live: LiveSettings
    derived: DerivedStore
    #: True while a member of the group holds a lock of a queue.
    is_ordered: Callable[[str], bool]
    reader: RecordReader
    state: AppliedState
    writer: StateWriter
