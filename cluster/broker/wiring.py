"""All parts of one broker, made and connected to each other; nothing here does any work itself."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import Any

from cluster.access_file import access_of
from cluster.broker.config import BrokerConfig
from cluster.broker.consume import (
    assignment_requests,
    client_requests,
    consumer_requests,
    lock_requests,
    subscription_check,
)
from cluster.broker.consume.lock_keeper import Locks
from cluster.broker.consume.long_poll import LongPolls
from cluster.broker.consume.pull import PullPath
from cluster.broker.consume.topic_routes import TopicRoutes
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.filtered import bitmap_of
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.apply.machine import BrokerMachine
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.links import Links
from cluster.broker.kernel.net.requests import Route, table
from cluster.broker.kernel.net.router import Router
from cluster.broker.kernel.net.server import ClientServer
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.read.wanted import Subscriptions
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.manage.broker.counting import Counting, Mornings
from cluster.broker.manage.exports import Exports
from cluster.broker.manage.housekeeping import Housekeeping
from cluster.broker.manage.retention import Retention
from cluster.broker.manage.route_requests import registered
from cluster.broker.manage.routes import routes as administrators
from cluster.broker.manage.topic_creation import TopicCreation
from cluster.broker.parked import requests as parked_requests
from cluster.broker.parked.parts import make_parked
from cluster.broker.parked.retries import RetryTopics
from cluster.broker.parts import Parts, Surroundings
from cluster.broker.pop import ack_requests, notice_requests, pop_requests
from cluster.broker.pop.parts import make_pop
from cluster.broker.produce import owner_requests, replies
from cluster.broker.produce.parts import make_sends
from cluster.broker.reactions import Reactions
from cluster.broker.registration import Registrar
from cluster.broker.services import Services
from cluster.broker.transactions import connect as transactions
from cluster.broker.transactions import end_requests
from cluster.core.apply import AppliedState
from cluster.core.filter_bits import FilterBits
from cluster.core.groups import ClientRegistry
from cluster.core.locks import LockLeases
from cluster.core.rate import Rate
from cluster.core.statistics import Statistics
from cluster.core.topics import built_in_topics
from commitlog.bloom import new_bloom_filter
from commitlog.delay_levels import parse_delay_levels
from commitlog.hosts import pack_host
from dledger.core.types import Role
from dledger.log.port import LogStore
from dledger.runtime.owned import Owned

MEMORY_RATIO = 0.4  # of the machine's memory: what counts as "in memory" (RocketMQ's default)


def wire(around: Surroundings, store: LogStore) -> Parts:
    """Make all parts on an opened log.

    Raises AccountsError or OSError for an accounts file that cannot be used, and RouteRefused.
    """
    config, owned, log = around.config, around.owned, ReplicaLog(store, around.owned)
    state = AppliedState(
        built_in_topics(config.cluster_name, config.broker_name),
        half_checks=transactions.check_rule(config),
        delay_levels=parse_delay_levels(config.message_delay_level),
    )
    leadership_parts = LeadershipParts()
    tables = LeaderTables(state, leadership_parts, owned.bound)
    appender = Appender(
        config,
        log,
        tables.clock,
        tables.queue_offsets,
        tables.cursors,
        call_soon=owned.call_soon,
        now_ms=around.clock.time_ms,
        bound=owned.bound,
    )
    leadership_parts.add(appender, lambda made: made.drop(services.leader_address()))
    polls = LongPolls(config.long_polls_max, now=owned.time, call_at=owned.call_at)
    leadership_parts.add(polls, LongPolls.leadership_ended)
    services, creation = _services(around, log, state, tables, appender, polls, leadership_parts)
    links = Links(config, owned)
    router = Router(services, _routes(config), links)
    creation.retry = router.sends
    services.sends.ask_again = router.sends_again
    retries = RetryTopics(services, services.parked.delays)
    services.sends.parkers += [retries.park, services.parked.delays.park]
    services.route = router.request_again
    services.ask_again = services.pulls.ask_again = router.ask_again
    transactions.connect(
        services, appender, tables.queue_offsets, around.advertised, leadership_parts
    )
    server = _server(around, services, router, links)
    exports = Exports(around.files, config.root, state, services.filters)
    housekeeping = Housekeeping(
        services,
        server,
        exports,
        around.files,
        leadership_parts.add(
            Retention(services, around.beginning, around.files), Retention.leadership_ended
        ),
    )
    router.refuse_sends = housekeeping.refuse_sends
    services.disk_used_ratio = lambda: housekeeping.disk_used_ratio
    registrar = Registrar(
        config,
        str(around.advertised),
        owned,
        current=lambda: registered(services),
        version=lambda: (state.topics.version.counter, state.topics.version.timestamp),
        now_ms=around.clock.time_ms,
    )
    parts = Parts(
        config=config,
        advertised=str(around.advertised),
        log=log,
        services=services,
        machine=BrokerMachine(services, leadership_parts, tables, around.clock.time_ms),
        appender=appender,
        leadership_parts=leadership_parts,
        tables=tables,
        links=links,
        polls=polls,
        router=router,
        server=server,
        registrar=registrar,
        housekeeping=housekeeping,
    )
    Reactions(parts).connect()
    return parts


def _services(
    around: Surroundings,
    log: ReplicaLog,
    state: AppliedState,
    tables: LeaderTables,
    appender: Appender,
    polls: LongPolls,
    leadership_parts: LeadershipParts,
) -> tuple[Services, TopicCreation]:
    """What request functions use."""
    config, owned = around.config, around.owned
    filters = _filters(config)
    derived = _derived(around, log, state, filters)
    derived.eager = lambda: polls.count > 0 or services.pop.waits.count > 0
    reader = RecordReader(log.store, lambda: derived.applied)
    registry = ClientRegistry()
    leadership = _leadership(config, owned)
    derived.leads = lambda: leadership.role is Role.LEADER
    leader_address = LeaderAddress(config, leadership, str(around.advertised))
    writer = _writer(around, tables, appender, derived, leadership_parts)
    pulls = _pulls(config, derived, reader, registry, polls, filters, lambda: services)
    statistics = Statistics()
    creation = TopicCreation(
        state,
        writer,
        config.leader_wait_bytes_max,
        rate=_topic_rate(config),
        topics_max=config.auto_create_topics_max,
        now=owned.time,
    )
    services = Services(
        config=config,
        log=log,
        state=state,
        derived=derived,
        reader=reader,
        leadership=leadership,
        registry=registry,
        writer=writer,
        offsets=_offsets(state, writer, owned, leadership_parts),
        sends=make_sends(
            around,
            state,
            tables,
            appender,
            creation,
            reader,
            derived,
            leader_address,
            leadership_parts,
        ),
        pulls=pulls,
        now=owned.time,
        now_ms=around.clock.time_ms,
        owned=owned,
        leader_address=leader_address,
        young_bytes_max=_memory_bytes(),
        advertised=str(around.advertised),
        started_ms=around.clock.time_ms(),
        statistics=statistics,
        mornings=Mornings(statistics, config.broker_name),
        calls=ClientCalls(owned.call_later, around.salt, owned.bound),
        locks=_locks(state, writer, owned, leadership_parts),
        parked=make_parked(
            around, state, tables, appender, reader, derived, leadership, leadership_parts
        ),
        filters=filters,
        topic_routes=TopicRoutes(config, state.topics, owned),
        pop=make_pop(
            around,
            state,
            tables,
            appender,
            derived,
            reader,
            pulls,
            writer,
            leadership,
            leadership_parts,
        ),
        access=access_of(config.acl_file, now=owned.time, now_ms=around.clock.time_ms),
    )
    _count(services)
    return services, creation


def _topic_rate(config: BrokerConfig) -> Rate:
    per_second = config.auto_create_topics_per_second
    return Rate(per_second, math.ceil(10 * per_second))


def _leadership(config: BrokerConfig, owned: Owned) -> Leadership:
    return Leadership(
        config,
        now=owned.time,
        call_later=owned.call_later,
        call_soon=owned.call_soon,
        bound=owned.bound,
    )


def _writer(
    around: Surroundings,
    tables: LeaderTables,
    appender: Appender,
    derived: DerivedStore,
    leadership_parts: LeadershipParts,
) -> StateWriter:
    writer = StateWriter(
        appender,
        tables.queue_offsets,
        host=pack_host(around.advertised),
        when_dispatched=derived.when_dispatched,
    )
    return leadership_parts.add(writer, StateWriter.leadership_ended)


def _offsets(
    state: AppliedState, writer: StateWriter, owned: Owned, leadership_parts: LeadershipParts
) -> OffsetKeeper:
    keeper = OffsetKeeper(
        state.offsets,
        writer,
        now=owned.time,
        call_at=owned.call_at,
        call_soon=owned.call_soon,
        bound=owned.bound,
    )
    return leadership_parts.add(keeper, OffsetKeeper.drop)


def _locks(
    state: AppliedState, writer: StateWriter, owned: Owned, leadership_parts: LeadershipParts
) -> Locks:
    locks = Locks(LockLeases(state.locks), writer, now=owned.time)
    return leadership_parts.add(locks, Locks.leadership_ended)


def _pulls(
    config: BrokerConfig,
    derived: DerivedStore,
    reader: RecordReader,
    registry: ClientRegistry,
    polls: LongPolls,
    filters: FilterBits | None,
    services: Callable[[], Services],
) -> PullPath:
    return PullPath(
        config,
        derived,
        reader,
        Subscriptions(derived.state, registry, auto_create_groups=config.auto_create_groups),
        polls,
        filters=filters,
        when_current=lambda then: services().when_current(then),
        to_error=lambda error: services().to_error(error),
        mistake=lambda: services().owned.spared("a waiting pull failed"),
    )


def _filters(config: BrokerConfig) -> FilterBits | None:
    """None: queues have no extension."""
    if not config.queue_ext_enabled:
        return None
    bloom = new_bloom_filter(config.filter_error_percent, config.filter_consumers)
    return FilterBits(calculates=config.filter_bitmap_enabled, bloom=bloom)


def _derived(
    around: Surroundings, log: ReplicaLog, state: AppliedState, filters: FilterBits | None
) -> DerivedStore:
    config, owned = around.config, around.owned
    return DerivedStore(
        config,
        around.files,
        state,
        log.store,
        first_position=log.first_position,
        call_soon=owned.call_soon,
        call_later=owned.call_later,
        failed=lambda error: owned.died(error),  # the driver's, once there is one
        now=owned.time,
        bound=owned.bound,
        filter_bitmap=None if filters is None else functools.partial(bitmap_of, filters),
        beginning=around.beginning,
    )


def _count(services: Services) -> None:
    """What goes in and out is counted where queues grow and where pulls are answered."""
    counting = Counting(
        services.statistics,
        services.state,
        services.config.broker_name,
        now=services.now,
        leads=lambda: services.leadership.leads,
    )
    services.derived.grown.append(counting.queue_grew)
    services.pulls.got = counting.got


def _routes(config: BrokerConfig) -> dict[int, Route[Any]]:
    return table(
        ack_requests.ROUTES,
        assignment_requests.ROUTES,
        client_requests.ROUTES,
        consumer_requests.ROUTES,
        lock_requests.ROUTES,
        notice_requests.ROUTES,
        pop_requests.ROUTES,
        subscription_check.ROUTES,
        parked_requests.ROUTES,
        replies.ROUTES,
        owner_requests.ROUTES,
        end_requests.ROUTES,
        administrators(config),
    )


def _server(around: Surroundings, services: Services, router: Router, links: Links) -> ClientServer:
    def left(connection: ClientConnection) -> None:
        links.client_closed(connection)
        client_requests.left(services, services.registry.channel_closed(connection))

    guarded = services.access is not None
    return ClientServer(around.config, router, around.owned, left=left, guarded=guarded)


class LeaderAddress:
    """Client address of who leads, as clients are told it; None while nobody is known to."""

    def __init__(self, config: BrokerConfig, leadership: Leadership, own: str) -> None:
        self._config, self._leadership, self._own = config, leadership, own

    def __call__(self) -> str | None:
        leader = self._leadership.leader
        if leader is None:
            return None
        if leader == self._config.node_id:
            return self._own
        advertised = self._config.peers_advertised.get(leader)
        return advertised or self._config.peers.get(leader)


def _memory_bytes() -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(total * MEMORY_RATIO)
