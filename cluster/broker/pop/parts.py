"""The parts of pop consumption, made and connected to each other."""

from __future__ import annotations

from cluster.broker.consume.pull import PullPath
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.parts import Surroundings
from cluster.broker.pop.popping import Popping
from cluster.broker.pop.reviving import Reviving
from cluster.broker.pop.service import PopService
from cluster.broker.pop.waiting import PopWaits
from cluster.broker.pop.writer import ReviveWriter
from cluster.core.apply import AppliedState
from cluster.core.pop.cursors import PopCursors
from cluster.core.pop.in_flight import InFlight
from commitlog.hosts import pack_host


def make_pop(
    around: Surroundings,
    state: AppliedState,
    tables: LeaderTables,
    appender: Appender,
    derived: DerivedStore,
    reader: RecordReader,
    pulls: PullPath,
    states: StateWriter,
    leadership: Leadership,
    leadership_parts: LeadershipParts,
) -> PopService:
    config, owned = around.config, around.owned
    writer = ReviveWriter(
        appender,
        tables.queue_offsets,
        cluster_name=config.cluster_name,
        host=pack_host(around.advertised),
        when_dispatched=derived.when_dispatched,
    )
    settling = leadership_parts.add(InFlight[tuple[int, int]](), InFlight.drop)
    reviving = Reviving(
        state,
        derived,
        reader,
        writer,
        states,
        settling,
        v2=config.pop_retry_v2,
        leads=lambda: leadership.leads,
        now_ms=around.clock.time_ms,
        call_later=owned.call_later,
    )
    waits = leadership_parts.add(
        PopWaits(config.long_polls_max, now=owned.time, call_at=owned.call_at),
        PopWaits.leadership_ended,
    )
    popping = Popping(config, state, derived, pulls, log_end=lambda: reader.store.end_position)
    leadership_parts.add(popping.cursors, PopCursors.drop)
    leadership_parts.add(popping.busy, InFlight.drop)
    return PopService(popping, waits, writer, reviving, pulls.subscriptions, settling)
