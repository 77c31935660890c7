"""The ports that requests of consumers use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.consume.lock_keeper import Locks
from cluster.broker.consume.topic_routes import TopicRoutes
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry


@dataclass(frozen=True, slots=True, eq=False)
class ConsumePorts:
    """Made once, by the wiring of the broker."""

    locks: Locks
    topic_routes: TopicRoutes
    config: BrokerConfig
    derived: DerivedStore
    leadership: Leadership
    log: LogPort
    now: Callable[[], float]
    offsets: OffsetKeeper
    queues: QueueReader
    reader: RecordReader
    registry: ClientRegistry
    state: AppliedState
    writer: StateWriter
    #: Records so near the end of the log count as in memory.
    young_bytes_max: int
