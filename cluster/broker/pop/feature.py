"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.read.wanted import Subscriptions
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.pop import ack_requests, notice_requests, pop_requests
from cluster.broker.pop.popping import Popping
from cluster.broker.pop.ports import PopPorts
from cluster.broker.pop.reviving import Reviving
from cluster.broker.pop.service import PopService
from cluster.broker.pop.waiting import PopWaits, Waiter
from cluster.broker.pop.writer import ReviveWriter
from cluster.core.apply import AppliedState
from cluster.core.pop.cursors import PopCursors
from cluster.core.pop.in_flight import InFlight
from cluster.protocol.frames import Frame
from commitlog.records.hosts import pack_host


class Pop:
    """Pop consumption. `service` holds the parts of which a leadership begins with `began`.

    `route` serves a request again that was checked when it came.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        state: AppliedState,
        tables: LeaderTables,
        appender: Appender,
        writer: StateWriter,
        derived: DerivedStore,
        reader: RecordReader,
        queues: QueueReader,
        subscriptions: Subscriptions,
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        *,
        leader_address: Callable[[], str | None],
        route: Callable[[Any, Frame], None],
    ) -> None:
        config, owned = environment.config, environment.owned
        self._route, self._call_soon = route, owned.call_soon
        now_ms = environment.clock.time_ms
        revive_writer = ReviveWriter(
            appender,
            tables.queue_offsets,
            cluster_name=config.cluster_name,
            host=pack_host(environment.advertised),
            when_dispatched=derived.when_dispatched,
        )
        settling = leadership_parts.add(InFlight[tuple[int, int]](), InFlight.drop)
        reviving = Reviving(
            state,
            derived,
            reader,
            revive_writer,
            writer,
            settling,
            v2=config.pop_retry_v2,
            leads=lambda: leadership.leads,
            now_ms=now_ms,
            call_later=owned.call_later,
        )
        waits = leadership_parts.add(
            PopWaits(
                config.long_polls_max,
                now=owned.time,
                call_at=owned.call_at,
                leads=lambda: leadership.leads,
                ended=self._route_again,
            ),
            PopWaits.leadership_ended,
        )
        derived.eager.append(lambda: waits.count > 0)
        popping = Popping(config, state, derived, queues, log_end=lambda: reader.store.end_position)
        leadership_parts.add(popping.cursors, PopCursors.drop)
        leadership_parts.add(popping.busy, InFlight.drop)
        self.service = PopService(popping, waits, revive_writer, reviving, subscriptions, settling)
        ports = PopPorts(
            pop=self.service,
            config=config,
            derived=derived,
            leader_address=leader_address,
            leadership=leadership,
            now_ms=now_ms,
            owned=owned,
            queues=queues,
            state=state,
            writer=writer,
        )
        self.handlers = bind(
            ports, ack_requests.ROUTES, notice_requests.ROUTES, pop_requests.ROUTES
        )

    def _route_again(self, waiters: Sequence[Waiter]) -> None:
        """Pops that waited when a leadership ended are routed again, in a later turn."""

        def again() -> None:
            for waiter in waiters:
                call = waiter.route_again()
                self._route(call.client, call.frame)

        self._call_soon(again)
