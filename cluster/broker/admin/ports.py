"""The ports that requests of administrators use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.admin.certificates_used import CertificatesUsed
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.disk_space import DiskSpace
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.core.lead_history import LeadHistory
from cluster.core.statistics import DailyTotals, Statistics
from cluster.errors import ClusterError
from cluster.security.access_file import Access
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class AdminPorts:
    """Made once, by the feature."""

    access: Access
    advertised: str
    calls: ClientCalls
    certificates: CertificatesUsed
    config: BrokerConfig
    live: LiveSettings
    derived: DerivedStore
    disk: DiskSpace
    leader_address: Callable[[], str | None]
    leadership: Leadership
    leads: LeadHistory
    log: LogPort
    daily_totals: DailyTotals
    now: Callable[[], float]
    now_ms: Callable[[], int]
    offsets: OffsetKeeper
    owned: Owned
    queues: QueueReader
    reader: RecordReader
    registry: ClientRegistry
    started_ms: int
    state: AppliedState
    statistics: Statistics
    to_error: Callable[[Exception], ClusterError]
    writer: StateWriter
