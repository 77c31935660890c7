"""The ports that requests of pop consumption use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.pop.service import PopService
from cluster.core.apply import AppliedState
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class PopPorts:
    """Made once, by the wiring of the broker."""

    pop: PopService
    config: BrokerConfig
    derived: DerivedStore
    leader_address: Callable[[], str | None]
    leadership: Leadership
    now_ms: Callable[[], int]
    owned: Owned
    queues: QueueReader
    state: AppliedState
    writer: StateWriter
