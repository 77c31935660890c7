"""The ports that requests of replies and producer ids use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.write.disk_space import DiskSpace
from cluster.broker.produce.send import SendPath
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry


@dataclass(frozen=True, slots=True, eq=False)
class ProducePorts:
    """Made once, by the wiring of the broker."""

    sends: SendPath
    advertised: str
    calls: ClientCalls
    config: BrokerConfig
    live: LiveSettings
    disk: DiskSpace
    now_ms: Callable[[], int]
    registry: ClientRegistry
    state: AppliedState
