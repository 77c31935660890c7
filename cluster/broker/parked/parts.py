"""The parts of this folder, made and connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.parked.delays import Delays
from cluster.broker.parked.delivery import Delivery
from cluster.broker.parked.outcomes import OutcomeWriter
from cluster.core.apply import AppliedState
from commitlog.hosts import Host, pack_host
from dledger.runtime.clock import Clock
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """What request functions use of it: see the modules."""

    delays: Delays
    outcomes: OutcomeWriter
    delivery: Delivery


class Around(Protocol):
    """What a broker stands on, as far as it is used here."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def advertised(self) -> Host: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def owned(self) -> Owned: ...


def make_parked(
    around: Around,
    state: AppliedState,
    tables: LeaderTables,
    appender: Appender,
    reader: RecordReader,
    derived: DerivedStore,
    leadership: Leadership,
    leadership_parts: LeadershipParts,
) -> Parked:
    """Listens to roles and queues from now on."""
    outcomes = OutcomeWriter(
        state,
        appender,
        tables.queue_offsets,
        tables.settling,
        host=pack_host(around.advertised),
        when_dispatched=derived.when_dispatched,
    )
    delivery = leadership_parts.add(
        Delivery(
            outcomes,
            reader,
            leads=lambda: leadership.leads,
            now=around.owned.time,
            now_ms=around.clock.time_ms,
            call_later=around.owned.call_later,
        ),
        Delivery.leadership_ended,
    )
    leadership.on_change(delivery.role_changed)
    derived.grown.append(delivery.queue_grew)
    return Parked(
        Delays(state, tables.queue_offsets, broker_name=around.config.broker_name),
        outcomes,
        delivery,
    )
