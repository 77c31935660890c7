"""The objects that `wiring.wire` makes: for the node that runs them, the admin page and tests.

No feature is handed this table: each one is made with the ports that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.access import AccessControl
from cluster.broker.admin import Admin
from cluster.broker.admin.housekeeping import Housekeeping
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.clients.notices import Notices
from cluster.broker.clients.notified_groups import NotifiedGroups
from cluster.broker.config import BrokerConfig
from cluster.broker.consume.lock_keeper import Locks
from cluster.broker.consume.long_poll import LongPolls
from cluster.broker.consume.pull import PullPath
from cluster.broker.consume.topic_routes import TopicRoutes
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.apply.machine import BrokerMachine
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.forward_links import ForwardLinks
from cluster.broker.kernel.net.router import Router
from cluster.broker.kernel.net.server import ClientServer
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.disk_space import DiskSpace
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.living import LivingFollowers
from cluster.broker.pop.service import PopService
from cluster.broker.produce.send import SendPath
from cluster.broker.registration import Registrar
from cluster.broker.transactions.outcomes import Outcomes
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.security.access_file import Access
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class BrokerComponents:
    """One broker, wired. The kernel's parts come first."""

    config: BrokerConfig
    advertised: str
    owned: Owned
    log: ReplicaLog
    state: AppliedState
    tables: LeaderTables
    leadership: Leadership
    leadership_parts: LeadershipParts
    leader_address: Callable[[], str | None]
    appender: Appender
    writer: StateWriter
    offsets: OffsetKeeper
    derived: DerivedStore
    reader: RecordReader
    queues: QueueReader
    disk: DiskSpace
    registry: ClientRegistry
    calls: ClientCalls
    access: Access
    machine: BrokerMachine
    links: ForwardLinks
    router: Router
    server: ClientServer
    registrar: Registrar
    living: LivingFollowers
    notified: NotifiedGroups

    sends: SendPath
    transactions: Outcomes
    pulls: PullPath
    polls: LongPolls
    notices: Notices
    locks: Locks
    topic_routes: TopicRoutes
    pop: PopService
    admin: Admin
    control: AccessControl

    @property
    def started_ms(self) -> int:
        """Wall clock when this broker was wired."""
        return self.admin.ports.started_ms

    @property
    def admin_ports(self) -> AdminPorts:
        """The ports that requests of administrators use."""
        return self.admin.ports

    @property
    def housekeeping(self) -> Housekeeping:
        """Checkpoints, exports, idle clients, log files that are no longer kept."""
        return self.admin.housekeeping
