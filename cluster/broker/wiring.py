"""All parts of one broker, made and connected to each other; nothing here does any work itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker import (
    client_requests,
    consumer_requests,
    message_requests,
    topic_requests,
)
from cluster.broker.appender import Appender
from cluster.broker.config import BrokerConfig
from cluster.broker.connection import ClientConnection
from cluster.broker.derived import DerivedStore
from cluster.broker.exports import Exports
from cluster.broker.housekeeping import Housekeeping
from cluster.broker.leader_tables import LeaderTables
from cluster.broker.leadership import Leadership
from cluster.broker.links import Links
from cluster.broker.long_poll import LongPolls
from cluster.broker.machine import BrokerMachine
from cluster.broker.offset_keeper import OffsetKeeper
from cluster.broker.pull import PullPath
from cluster.broker.reactions import Reactions, registered
from cluster.broker.reader import RecordReader
from cluster.broker.registration import Registrar
from cluster.broker.repeats import Originals
from cluster.broker.replica_log import ReplicaLog
from cluster.broker.requests import Route, table
from cluster.broker.router import Router
from cluster.broker.send import SendPath
from cluster.broker.server import ClientServer
from cluster.broker.services import Services
from cluster.broker.state_writer import StateWriter
from cluster.broker.stored_properties import StoredProperties
from cluster.broker.topic_creation import TopicCreation
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.core.topics import built_in_topics
from cluster.protocol.offset_id import store_host_hex
from cluster.protocol.send_response import SendResponder
from commitlog.files import FileSystem
from commitlog.hosts import Host, pack_host
from commitlog.ids import UniqueKeyGenerator
from dledger.runtime.clock import Clock
from dledger.storage.port import LogStore

MEMORY_RATIO = 0.4  # of the machine's memory: what counts as "in memory" (RocketMQ's default)


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What a broker stands on. `advertised`: its address in message ids and routes, an IP."""

    config: BrokerConfig
    advertised: Host
    files: FileSystem
    clock: Clock
    loop: asyncio.AbstractEventLoop
    salt: int
    failed: Callable[[BaseException], None]


@dataclass(slots=True, eq=False)
class Parts:
    """One broker, wired."""

    config: BrokerConfig
    advertised: str
    log: ReplicaLog
    services: Services
    machine: BrokerMachine
    appender: Appender
    tables: LeaderTables
    links: Links
    polls: LongPolls
    router: Router
    server: ClientServer
    registrar: Registrar
    housekeeping: Housekeeping


def wire(around: Surroundings, store: LogStore) -> Parts:
    """Make all parts on an opened log."""
    config, loop, log = around.config, around.loop, ReplicaLog(store)
    state = AppliedState(built_in_topics(config.cluster_name, config.broker_name))
    tables = LeaderTables(state)
    appender = Appender(
        config,
        log,
        tables.clock,
        tables.queue_offsets,
        state.producers,
        tables.cursors,
        call_soon=loop.call_soon,
        now_ms=around.clock.time_ms,
    )
    polls = LongPolls(config.long_polls_max, now=loop.time, call_at=loop.call_at)
    services, creation = _services(around, log, state, tables, appender, polls)
    links = Links(config, now_ms=around.clock.time_ms)
    router = Router(services, _routes(), links)
    creation.retry = router.sends
    server = _server(around, services, router, links)
    exports = Exports(around.files, config.root, state)
    housekeeping = Housekeeping(services, server, exports, around.files, failed=around.failed)
    router.refuse_sends = housekeeping.refuse_sends
    registrar = Registrar(
        config,
        str(around.advertised),
        current=lambda: registered(services),
        version=lambda: (state.topics.version.counter, state.topics.version.timestamp),
    )
    parts = Parts(
        config=config,
        advertised=str(around.advertised),
        log=log,
        services=services,
        machine=BrokerMachine(services, appender, tables, around.clock.time_ms),
        appender=appender,
        tables=tables,
        links=links,
        polls=polls,
        router=router,
        server=server,
        registrar=registrar,
        housekeeping=housekeeping,
    )
    Reactions(parts, loop).connect()
    return parts


def _services(
    around: Surroundings,
    log: ReplicaLog,
    state: AppliedState,
    tables: LeaderTables,
    appender: Appender,
    polls: LongPolls,
) -> tuple[Services, TopicCreation]:
    """What request functions use."""
    config, loop = around.config, around.loop
    derived = DerivedStore(
        config,
        around.files,
        state,
        log.store,
        first_position=log.first_position,
        call_soon=loop.call_soon,
        call_later=loop.call_later,
        failed=around.failed,
    )
    derived.eager = lambda: polls.count > 0
    reader = RecordReader(log.store, lambda: derived.applied)
    registry = ClientRegistry()
    leadership = Leadership(
        config, now=loop.time, call_later=loop.call_later, call_soon=loop.call_soon
    )
    leader_address = LeaderAddress(config, leadership, str(around.advertised))
    writer = StateWriter(
        appender,
        tables.queue_offsets,
        host=pack_host(around.advertised),
        when_dispatched=derived.when_dispatched,
    )
    creation = TopicCreation(state, writer, config.leader_wait_bytes_max)
    services = Services(
        config=config,
        log=log,
        state=state,
        derived=derived,
        reader=reader,
        leadership=leadership,
        registry=registry,
        writer=writer,
        offsets=OffsetKeeper(
            state.offsets, writer, now=loop.time, call_at=loop.call_at, call_soon=loop.call_soon
        ),
        sends=_sends(around, state, tables, appender, creation, reader, derived, leader_address),
        pulls=PullPath(
            config,
            derived,
            reader,
            registry,
            polls,
            when_current=lambda then: services.when_current(then),
            to_error=lambda error: services.to_error(error),
        ),
        now=loop.time,
        now_ms=around.clock.time_ms,
        call_later=loop.call_later,
        leader_address=leader_address,
        young_bytes_max=_memory_bytes(),
        peer_clock=tables.clock.observe,
    )
    return services, creation


def _sends(
    around: Surroundings,
    state: AppliedState,
    tables: LeaderTables,
    appender: Appender,
    creation: TopicCreation,
    reader: RecordReader,
    derived: DerivedStore,
    leader_address: LeaderAddress,
) -> SendPath:
    config, advertised = around.config, around.advertised
    ip = "127.0.0.1" if ":" in advertised.ip else advertised.ip
    keys = UniqueKeyGenerator(ip, os.getpid(), around.salt, around.clock.time_ms)
    return SendPath(
        config,
        state,
        appender,
        tables.queue_offsets,
        tables.cursors,
        tables.repeats,
        Originals(state.producers, reader.store),
        responder=SendResponder(
            store_host_hex(*advertised), config.region, trace_on=config.trace_on
        ),
        store_host=pack_host(advertised),
        stored=StoredProperties(config, keys),
        create_topic=creation.create,
        locate=reader.place,
        applied=lambda: derived.applied,
        leader_address=leader_address,
    )


def _routes() -> dict[int, Route]:
    return table(
        client_requests.ROUTES,
        consumer_requests.ROUTES,
        message_requests.ROUTES,
        topic_requests.ROUTES,
    )


def _server(around: Surroundings, services: Services, router: Router, links: Links) -> ClientServer:
    def left(connection: ClientConnection) -> None:
        links.client_closed(connection)
        client_requests.left(services, services.registry.channel_closed(connection))

    return ClientServer(around.config, router, now=around.loop.time, left=left)


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
