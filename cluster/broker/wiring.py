"""The wiring of a broker, top to bottom: the kernel, the features, the client port.

A part is handed the ports that it uses when it is made. Requests of a feature are bound to the
feature's own table of ports, and the router refuses a request code that two features claim.
"""

from __future__ import annotations

import functools
import os

from cluster.broker.access import AccessControl
from cluster.broker.admin import Admin
from cluster.broker.clients import Clients
from cluster.broker.components import BrokerComponents
from cluster.broker.config import BrokerConfig
from cluster.broker.consume import Consume
from cluster.broker.delay import Delay
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leader_address import LeaderAddress
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.forward_links import ForwardLinks
from cluster.broker.kernel.net.router import Router
from cluster.broker.kernel.net.server import ClientServer
from cluster.broker.kernel.read.counting import Counting
from cluster.broker.kernel.read.current import CurrentReads
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.read.wanted import Subscriptions
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.disk_space import DiskSpace
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.pop import Pop
from cluster.broker.produce import Produce
from cluster.broker.reactions import Reactions
from cluster.broker.registering import registering
from cluster.broker.tracing import log_of, machine_of
from cluster.broker.transactions import Transactions
from cluster.broker.transactions.feature import check_rule
from cluster.core.apply import AppliedState
from cluster.core.filter_bits import FilterBits, bitmap_of
from cluster.core.groups import ClientRegistry
from cluster.core.statistics import Statistics
from cluster.core.topics import built_in_topics
from cluster.security.access_file import Access
from commitlog.delay_levels import parse_delay_levels
from commitlog.queues.bloom import new_bloom_filter
from commitlog.records.hosts import pack_host
from dledger.core.types import NodeId, Role
from dledger.log.port import LogStore
from dledger.runtime.loop import give_back_memory
from dledger.runtime.owned import Owned

MEMORY_RATIO = 0.4  # of the machine's memory: what counts as "in memory" (RocketMQ's default)


def wire(environment: BrokerEnvironment, store: LogStore) -> BrokerComponents:
    """Make all parts of a broker on an opened log.

    Raises AccountsError or OSError for an accounts file that cannot be used, and HandlerRefused.
    """
    config, owned, live = environment.config, environment.owned, environment.live
    now, now_ms, advertised = owned.time, environment.clock.time_ms, str(environment.advertised)

    # -- kernel: state, leadership, writing, reading -----------------------------------------------
    log = log_of(config, store, owned)
    state = _state(environment)
    leadership = Leadership(
        config, now=now, call_later=owned.call_later, call_soon=owned.call_soon, bound=owned.bound
    )
    parts, leader_address = LeadershipParts(), LeaderAddress(config, leadership, advertised)
    tables = LeaderTables(state, parts, owned.bound)
    appender = Appender(
        config,
        log,
        tables.clock,
        tables.queue_offsets,
        tables.cursors,
        call_soon=owned.call_soon,
        now_ms=now_ms,
        bound=owned.bound,
    )
    parts.add(appender, lambda made: made.drop(leader_address()))
    filters = _filters(config)
    disk = DiskSpace(live, environment.files, log, call_soon=owned.call_soon)
    derived = _derived(environment, log, state, filters, leadership, disk)
    writer = StateWriter(
        appender,
        tables.queue_offsets,
        host=pack_host(environment.advertised),
        when_dispatched=derived.when_dispatched,
    )
    parts.add(writer, StateWriter.leadership_ended)
    offsets = OffsetKeeper(
        state.offsets,
        writer,
        now=now,
        call_at=owned.call_at,
        call_soon=owned.call_soon,
        record_size_max=config.body_size_max,
        bound=owned.bound,
    )
    parts.add(offsets, OffsetKeeper.drop)
    statistics, registry = Statistics(), ClientRegistry()
    counting = Counting(
        statistics, state, config.broker_name, now=now, leads=lambda: leadership.leads
    )
    derived.grown.append(counting.queue_grew)
    reader, reads = _reader(log.store, derived, owned), CurrentReads(log, derived)
    queues = QueueReader(live, derived, reader, filters=filters, count_read=counting.got)
    subscriptions = Subscriptions(state, registry, live)

    # -- kernel: the way of requests ---------------------------------------------------------------
    access = _access(environment, state, appender)
    calls = ClientCalls(owned.call_later, environment.salt, owned.bound)
    links = ForwardLinks(config, owned, leadership, applied=lambda: derived.applied)
    router = Router(
        config,
        links,
        leadership,
        reads,
        calls,
        owned,
        leader_address=leader_address,
        access=access,
        refuse_sends=disk.refuse_sends,
    )

    # -- features ----------------------------------------------------------------------------------
    clients = Clients(
        environment, state, writer, offsets, reader, registry, calls, filters, leadership
    )
    consume = Consume(
        environment,
        log,
        state,
        writer,
        offsets,
        derived,
        reader,
        queues,
        subscriptions,
        reads,
        registry,
        leadership,
        parts,
        access,
        route=router.request,
        ask_again=router.ask_again,
        judge_again=router.request_again,
        to_error=router.to_error,
        young_bytes_max=_memory_bytes(),
    )
    delay = Delay(
        environment,
        state,
        tables,
        appender,
        writer,
        reader,
        derived,
        leadership,
        parts,
        is_ordered=consume.is_ordered,
    )
    transactions = Transactions(
        environment,
        log,
        state,
        tables,
        appender,
        writer,
        reader,
        derived,
        registry,
        leadership,
        parts,
        access,
        route=router.request_again,
    )
    produce = Produce(
        environment,
        state,
        tables,
        appender,
        writer,
        reader,
        derived,
        registry,
        calls,
        disk,
        parts,
        access,
        leader_address=leader_address,
        retry=router.sends_that_waited,
        ask_again=router.sends_again,
        interceptors=[*delay.interceptors, transactions.interceptor],
    )
    pop = Pop(
        environment,
        state,
        tables,
        appender,
        writer,
        derived,
        reader,
        queues,
        subscriptions,
        leadership,
        parts,
        leader_address=leader_address,
        route=router.request_again,
    )

    control = AccessControl(
        environment, log, state, writer, derived, reader, leadership, parts, access
    )

    # -- the client port, administration, name servers ---------------------------------------------
    def connection_left(connection: ClientConnection) -> None:
        links.client_closed(connection)
        clients.notices.client_closed(connection)
        clients.left(registry.channel_closed(connection))

    server = ClientServer(live, router, owned, left=connection_left, guarded=lambda: access.is_on)
    admin = Admin(
        environment,
        log,
        state,
        writer,
        offsets,
        derived,
        reader,
        queues,
        registry,
        calls,
        statistics,
        filters,
        disk,
        leadership,
        parts,
        access,
        leader_address=leader_address,
        to_error=router.to_error,
        close_idle=server.close_idle,
        clients_left=clients.left,
        keep_entries=control.keeping.begin,
    )
    router.add_hot_paths(produce.sends, consume.pulls, clients.notices)
    for feature in (clients, consume, delay, transactions, produce, pop, control, admin):
        router.add(control.audit.audited(feature.handlers))
    router.denied.append(control.audit.denied)
    living, notified, registrar = registering(
        environment, log, state, registry, leadership, consume, admin, server
    )
    reactions = Reactions(
        config,
        owned,
        state,
        tables,
        writer,
        derived,
        registry,
        links,
        router,
        server,
        registrar,
        leadership,
        clients,
        produce,
        consume,
        pop,
        access,
        leader_address=leader_address,
    )
    machine = machine_of(config, log, derived, now_ms)(
        NodeId(config.node_id),
        log,
        state,
        derived,
        leadership,
        parts,
        tables,
        now_ms,
        began=reactions.leadership_began,
    )
    return BrokerComponents(
        config=config,
        advertised=advertised,
        owned=owned,
        log=log,
        state=state,
        tables=tables,
        leadership=leadership,
        leadership_parts=parts,
        leader_address=leader_address,
        appender=appender,
        writer=writer,
        offsets=offsets,
        derived=derived,
        reader=reader,
        queues=queues,
        disk=disk,
        registry=registry,
        calls=calls,
        access=access,
        machine=machine,
        links=links,
        router=router,
        server=server,
        registrar=registrar,
        living=living,
        notified=notified,
        sends=produce.sends,
        transactions=transactions.outcomes,
        pulls=consume.pulls,
        polls=consume.polls,
        notices=clients.notices,
        locks=consume.locks,
        topic_routes=consume.topic_routes,
        pop=pop.service,
        admin=admin,
        control=control,
    )


def _state(environment: BrokerEnvironment) -> AppliedState:
    """The tables, empty but for the topics that every broker has."""
    config = environment.config
    topics = built_in_topics(config.cluster_name, config.broker_name)
    levels = parse_delay_levels(config.message_delay_level)
    state = AppliedState(topics, half_checks=check_rule(config), delay_levels=levels)
    state.settings.watch(environment.live.take)
    return state


def _access(environment: BrokerEnvironment, state: AppliedState, appender: Appender) -> Access:
    """Accounts of the node's file and of the log. Raises AccountsError, OSError."""
    config = environment.config
    return Access(
        config.acl_file,
        state.accounts,
        now=environment.owned.time,
        now_ms=environment.clock.time_ms,
        not_before=appender.not_before,
        peers_prove=config.cluster_secret is not None,
    )


def _reader(store: LogStore, derived: DerivedStore, owned: Owned) -> RecordReader:
    return RecordReader(store, lambda: derived.applied, owned.call_later, give_back_memory)


def _filters(config: BrokerConfig) -> FilterBits | None:
    """The filter bits of queues with an extension; None if queues have none."""
    if not config.queue_ext_enabled:
        return None
    bloom = new_bloom_filter(config.filter_error_percent, config.filter_consumers)
    return FilterBits(calculates=config.filter_bitmap_enabled, bloom=bloom)


def _derived(
    environment: BrokerEnvironment,
    log: ReplicaLog,
    state: AppliedState,
    filters: FilterBits | None,
    leadership: Leadership,
    disk: DiskSpace,
) -> DerivedStore:
    config, owned = environment.config, environment.owned
    return DerivedStore(
        config,
        environment.files,
        state,
        log.store,
        first_position=log.first_position,
        call_soon=owned.call_soon,
        call_later=owned.call_later,
        failed=lambda error: owned.died(error),  # the driver's, once there is one
        now=owned.time,
        bound=owned.bound,
        in_thread=owned.in_thread,
        filter_bitmap=None if filters is None else functools.partial(bitmap_of, filters),
        beginning=environment.beginning,
        leads=lambda: leadership.role is Role.LEADER,
        space_told=disk.deriving_rests,
    )


def _memory_bytes() -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(total * MEMORY_RATIO)
