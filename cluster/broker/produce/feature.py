"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.disk_space import DiskSpace
from cluster.broker.kernel.write.placement import Interceptor
from cluster.broker.kernel.write.repeats import Originals
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.produce import owner_requests, replies
from cluster.broker.produce.owners import Owners
from cluster.broker.produce.paced_creation import PacedCreation
from cluster.broker.produce.ports import ProducePorts
from cluster.broker.produce.send import SendPath
from cluster.broker.produce.send_context import SendContext
from cluster.broker.produce.stored_before import StoredBefore
from cluster.broker.produce.stored_properties import StoredProperties
from cluster.broker.produce.topic_creation import TopicCreation
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.core.rate import Rate
from cluster.protocol.send import SendRequest
from cluster.security.access_file import Access
from commitlog.records.ids import UniqueKeyGenerator


class Produce:
    """Sends, replies to the client that asked (324, 325), owners of producer ids.

    `sends` is called without a table (`Router.add_hot_paths`).
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        state: AppliedState,
        tables: LeaderTables,
        appender: Appender,
        writer: StateWriter,
        reader: RecordReader,
        derived: DerivedStore,
        registry: ClientRegistry,
        calls: ClientCalls,
        disk: DiskSpace,
        leadership_parts: LeadershipParts,
        access: Access,
        *,
        leader_address: Callable[[], str | None],
        retry: Callable[[Any, Sequence[SendRequest]], None],
        ask_again: Callable[[Any, Sequence[SendRequest]], bool],
        interceptors: Sequence[Interceptor],
    ) -> None:
        """`retry` takes sends again that waited for their topic; see `SendPath` for the others."""
        config, advertised = environment.config, environment.advertised
        now_ms, per_second = environment.clock.time_ms, config.auto_create_topics_per_second
        creation = TopicCreation(
            state,
            writer,
            environment.owned,
            environment.live,
            rate=Rate(per_second, math.ceil(10 * per_second)),
            retry=retry,
            give_back=lambda request: access.give_back(request.sender, request.signed),
        )
        leadership_parts.add(creation.paced, PacedCreation.leadership_ended)
        context = SendContext(
            state.producers,
            tables.cursors,
            leadership_parts.add(Owners(state.producers, writer, access), Owners.leadership_ended),
            tables.repeats,
            leadership_parts.add(Originals(state.producers, reader.store), Originals.drop),
            leadership_parts.add(StoredBefore(reader.store), StoredBefore.drop),
            config=config,
            advertised=advertised,
            locate=reader.place,
            applied=lambda: derived.applied,
            leader_address=leader_address,
            ask_again=ask_again,
        )
        self.sends = SendPath(
            config,
            state,
            appender,
            tables.queue_offsets,
            context,
            stored=_stored_properties(environment),
            create_topic=creation.create,
            interceptors=interceptors,
        )
        leadership_parts.add(self.sends, SendPath.invalidate)
        ports = ProducePorts(
            sends=self.sends,
            advertised=str(advertised),
            calls=calls,
            config=config,
            live=environment.live,
            disk=disk,
            now_ms=now_ms,
            registry=registry,
            state=state,
        )
        self.handlers = bind(ports, replies.ROUTES, owner_requests.ROUTES)


def _stored_properties(environment: BrokerEnvironment) -> StoredProperties:
    advertised = environment.advertised
    ip = "127.0.0.1" if ":" in advertised.ip else advertised.ip
    keys = UniqueKeyGenerator(ip, os.getpid(), environment.salt, environment.clock.time_ms)
    return StoredProperties(environment.config, keys)
