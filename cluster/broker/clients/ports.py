"""The kernel parts that requests of and about connected clients use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.filter_bits import FilterBits
from cluster.core.groups import ClientRegistry


@dataclass(frozen=True, slots=True, eq=False)
class ClientPorts:
    """Made once, by the feature."""

    calls: ClientCalls
    config: BrokerConfig
    #: None: queues have no extension.
    filters: FilterBits | None
    #: Calls in so many seconds.
    later: Callable[[float, Callable[[], None]], object]
    leadership: Leadership
    live: LiveSettings
    now: Callable[[], float]
    now_ms: Callable[[], int]
    offsets: OffsetKeeper
    reader: RecordReader
    registry: ClientRegistry
    state: AppliedState
    writer: StateWriter
