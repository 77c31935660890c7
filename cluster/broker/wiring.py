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
from cluster.broker.dedup import Cursors
from cluster.broker.derived import DerivedStore
from cluster.broker.exports import Exports
from cluster.broker.housekeeping import Housekeeping
from cluster.broker.leadership import Leadership
from cluster.broker.links import Links
from cluster.broker.long_poll import LongPolls
from cluster.broker.machine import BrokerMachine
from cluster.broker.offset_keeper import OffsetKeeper
from cluster.broker.pull import PullPath
from cluster.broker.reactions import Reactions, registered
from cluster.broker.reader import RecordReader
from cluster.broker.registration import Registrar
from cluster.broker.repeats import Originals, RepeatsWaiting
from cluster.broker.replica_log import ReplicaLog
from cluster.broker.requests import table
from cluster.broker.router import Router
from cluster.broker.send import SendPath
from cluster.broker.server import ClientServer
from cluster.broker.services import Services
from cluster.broker.state_writer import StateWriter
from cluster.broker.topic_creation import TopicCreation
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.store_time import StoreClock
from cluster.core.topics import built_in_topics
from cluster.protocol.offset_id import store_host_hex
from cluster.protocol.send_response import SendResponder
from commitlog.files import FileSystem
from commitlog.hosts import Host, pack_host
from commitlog.ids import UniqueKeyGenerator
from dledger.runtime.clock import Clock
from dledger.storage.port import LogStore

MEMORY_RATIO = 0.4  # of the machine's memory: what counts as "in memory" (RocketMQ's default)


@dataclass(slots=True, eq=False)
class Parts:
    """One broker, wired."""

    config: BrokerConfig
    advertised: str
    log: ReplicaLog
    services: Services
    machine: BrokerMachine
    appender: Appender
    links: Links
    polls: LongPolls
    router: Router
    server: ClientServer
    registrar: Registrar
    housekeeping: Housekeeping
    store_clock: StoreClock


def wire(
    config: BrokerConfig,
    store: LogStore,
    *,
    advertised: Host,
    files: FileSystem,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    salt: int,
    failed: Callable[[BaseException], None],
) -> Parts:
    """Make all parts on an opened log. `advertised`: address in message ids and routes, an IP."""
    log = ReplicaLog(store)
    state = AppliedState(built_in_topics(config.cluster_name, config.broker_name))
    derived = DerivedStore(
        config,
        files,
        state,
        store,
        first_position=log.first_position,
        call_soon=loop.call_soon,
        call_later=loop.call_later,
        failed=failed,
    )
    reader = RecordReader(log)
    leadership = Leadership(
        config, now=loop.time, call_later=loop.call_later, call_soon=loop.call_soon
    )
    registry = ClientRegistry()
    store_clock = StoreClock()
    queue_offsets = LeaderQueueOffsets(state.queue_ends)
    host = pack_host(advertised)
    cursors = Cursors(state.producers)
    appender = Appender(
        config,
        log,
        store_clock,
        queue_offsets,
        state.producers,
        cursors,
        call_soon=loop.call_soon,
        now_ms=clock.time_ms,
    )
    writer = StateWriter(
        appender, queue_offsets, host=host, when_dispatched=derived.when_dispatched
    )
    offsets = OffsetKeeper(
        state.offsets, writer, now=loop.time, call_at=loop.call_at, call_soon=loop.call_soon
    )
    leader_address = LeaderAddress(config, leadership, str(advertised))
    repeats = RepeatsWaiting()
    creation = TopicCreation(state, writer)
    sends = SendPath(
        config,
        state,
        appender,
        queue_offsets,
        cursors,
        repeats,
        Originals(state.producers, store),
        responder=SendResponder(
            store_host_hex(*advertised), config.region, trace_on=config.trace_on
        ),
        store_host=host,
        unique_keys=UniqueKeyGenerator(
            advertised.ip if ":" not in advertised.ip else "127.0.0.1",
            os.getpid(),
            salt,
            clock.time_ms,
        ),
        create_topic=creation.create,
        locate=reader.place,
        applied=lambda: derived.applied,
        leader_address=leader_address,
    )
    polls = LongPolls(config.long_polls_max, now=loop.time, call_at=loop.call_at)
    derived.eager = lambda: polls.count > 0
    pulls = PullPath(
        config,
        derived,
        reader,
        registry,
        polls,
        when_current=lambda then: services.when_current(then),
        to_error=lambda error: services.to_error(error),
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
        offsets=offsets,
        sends=sends,
        pulls=pulls,
        now=loop.time,
        now_ms=clock.time_ms,
        call_later=loop.call_later,
        leader_address=leader_address,
        young_bytes_max=_memory_bytes(),
    )
    links = Links(config, now_ms=clock.time_ms)
    router = Router(
        services,
        table(
            client_requests.ROUTES,
            consumer_requests.ROUTES,
            message_requests.ROUTES,
            topic_requests.ROUTES,
        ),
        links,
    )
    creation.retry = router.sends

    def left(connection: ClientConnection) -> None:
        links.client_closed(connection)
        client_requests.left(services, registry.channel_closed(connection))

    server = ClientServer(config, router, now=loop.time, left=left)
    housekeeping = Housekeeping(
        services, server, Exports(files, config.root, state), files, failed=failed
    )
    router.refuse_sends = housekeeping.refuse_sends
    registrar = Registrar(
        config,
        str(advertised),
        current=lambda: registered(services),
        version=lambda: (state.topics.version.counter, state.topics.version.timestamp),
    )
    machine = BrokerMachine(store_clock, clock.time_ms)
    parts = Parts(
        config=config,
        advertised=str(advertised),
        log=log,
        services=services,
        machine=machine,
        appender=appender,
        links=links,
        polls=polls,
        router=router,
        server=server,
        registrar=registrar,
        housekeeping=housekeeping,
        store_clock=store_clock,
    )
    Reactions(parts, loop).connect(repeats, queue_offsets, cursors)
    return parts


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
