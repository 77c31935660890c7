"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from cluster.broker.admin import (
    lead_requests,
    leader_requests,
    member_requests,
    message_requests,
    queue_view,
    repair_requests,
    route_requests,
    topic_requests,
    waiting_requests,
)
from cluster.broker.admin.certificates_used import CertificatesUsed
from cluster.broker.admin.exports import Exports
from cluster.broker.admin.figures import runtime
from cluster.broker.admin.groups import moving, progress, settings
from cluster.broker.admin.housekeeping import Housekeeping
from cluster.broker.admin.lead_file import LeadFile
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.admin.retention import KeepEntries, Retention
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.disk_space import DiskSpace
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.registration import Registered
from cluster.core.apply import AppliedState
from cluster.core.filter_bits import FilterBits
from cluster.core.groups import Change, ClientRegistry
from cluster.core.statistics import DailyTotals, Statistics
from cluster.errors import ClusterError
from cluster.security.access_file import Access
from commitlog.store.layout import StoreLayout

#: Requests of administrators, by file.
TABLES = (
    lead_requests.ROUTES,
    leader_requests.ROUTES,
    member_requests.ROUTES,
    message_requests.ROUTES,
    moving.ROUTES,
    progress.ROUTES,
    queue_view.ROUTES,
    repair_requests.ROUTES,
    runtime.ROUTES,
    settings.ROUTES,
    topic_requests.ROUTES,
    waiting_requests.ROUTES,
)


class Admin:
    """Requests of administrators, figures, and the work that a broker does now and then.

    `ports` are what its requests use; `housekeeping` runs within `running`. A node without name
    servers answers requests for routes, too.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        log: LogPort,
        state: AppliedState,
        writer: StateWriter,
        offsets: OffsetKeeper,
        derived: DerivedStore,
        reader: RecordReader,
        queues: QueueReader,
        registry: ClientRegistry,
        calls: ClientCalls,
        statistics: Statistics,
        filters: FilterBits | None,
        disk: DiskSpace,
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        access: Access,
        *,
        leader_address: Callable[[], str | None],
        to_error: Callable[[Exception], ClusterError],
        close_idle: Callable[[], None],
        clients_left: Callable[[Change], None],
        keep_entries: KeepEntries,
    ) -> None:
        """See `Housekeeping` and `Retention` for the last three."""
        config, owned, now_ms = environment.config, environment.owned, environment.clock.time_ms
        lead_file = _leaders_seen(environment, leadership)
        self.ports = AdminPorts(
            access=access,
            advertised=str(environment.advertised),
            calls=calls,
            certificates=CertificatesUsed(config, log),
            config=config,
            live=environment.live,
            daily_totals=DailyTotals(statistics, config.broker_name),
            derived=derived,
            disk=disk,
            leader_address=leader_address,
            leadership=leadership,
            leads=lead_file.history,
            log=log,
            now=owned.time,
            now_ms=now_ms,
            offsets=offsets,
            owned=owned,
            queues=queues,
            reader=reader,
            registry=registry,
            started_ms=now_ms(),
            state=state,
            statistics=statistics,
            to_error=to_error,
            writer=writer,
        )
        files, beginning = environment.files, environment.beginning
        retention = Retention(self.ports, beginning, files, keep=keep_entries)
        leadership_parts.add(retention, Retention.leadership_ended)
        self.housekeeping = Housekeeping(
            self.ports,
            Exports(files, config.root, state, filters),
            retention,
            lead_file,
            close_idle=close_idle,
            clients_left=clients_left,
        )
        own_routes = {} if config.name_servers else route_requests.ROUTES
        self.handlers = bind(self.ports, own_routes, *TABLES)

    def registered(self) -> Registered | None:
        """The registration that name servers get now; None while no leader is known."""
        return route_requests.registered(self.ports)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Housekeeping runs within."""
        return self.housekeeping.running()


def _leaders_seen(environment: BrokerEnvironment, leadership: Leadership) -> LeadFile:
    root, now_ms = environment.config.root, environment.clock.time_ms
    file = LeadFile(environment.files, root, StoreLayout(root).staging, now_ms())
    told = file.history.told
    leadership.on_change(
        lambda: told(leadership.role, leadership.term, leadership.leader, now_ms())
    )
    return file
