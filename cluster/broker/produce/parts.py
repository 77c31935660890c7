"""The way of sends through this folder, made and connected."""

from __future__ import annotations

import os
from collections.abc import Callable

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.repeats import Originals
from cluster.broker.manage.topic_creation import TopicCreation
from cluster.broker.parts import Surroundings
from cluster.broker.produce.owners import Owners
from cluster.broker.produce.send import SendPath
from cluster.broker.produce.stored_properties import StoredProperties
from cluster.core.apply import AppliedState
from cluster.protocol.offset_id import store_host_hex
from cluster.protocol.send_response import SendResponder
from commitlog.hosts import pack_host
from commitlog.ids import UniqueKeyGenerator


def make_sends(
    around: Surroundings,
    state: AppliedState,
    tables: LeaderTables,
    appender: Appender,
    creation: TopicCreation,
    reader: RecordReader,
    derived: DerivedStore,
    leader_address: Callable[[], str | None],
    leadership_parts: LeadershipParts,
) -> SendPath:
    """Of one broker; parkers are added when they are made."""
    config, advertised = around.config, around.advertised
    ip = "127.0.0.1" if ":" in advertised.ip else advertised.ip
    keys = UniqueKeyGenerator(ip, os.getpid(), around.salt, around.clock.time_ms)
    owners = Owners(state.producers, creation.writer, in_force=bool(config.acl_file))
    sends = SendPath(
        config,
        state,
        appender,
        tables.queue_offsets,
        tables.cursors,
        leadership_parts.add(owners, Owners.leadership_ended),
        tables.repeats,
        leadership_parts.add(Originals(state.producers, reader.store), Originals.drop),
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
    return leadership_parts.add(sends, SendPath.invalidate)
