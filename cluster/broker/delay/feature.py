"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.broker.delay.delays import Delays
from cluster.broker.delay.delivery import Delivery
from cluster.broker.delay.outcomes import OutcomeWriter
from cluster.broker.delay.ports import DelayPorts
from cluster.broker.delay.recalls import needs_of_recall, read_recall, recall
from cluster.broker.delay.retries import needs_of_send_back, send_back
from cluster.broker.delay.retry_topics import RetryTopics
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.decisions import decided, decided_for
from cluster.broker.kernel.net.requests import Handler, Who, bind, fields
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.placement import Interceptor
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import SendBackRequest
from commitlog.records.hosts import pack_host

ROUTES: dict[int, Handler[DelayPorts, Any]] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: Handler(
        Who.LEADER, fields(SendBackRequest), needs_of_send_back, decided_for(send_back)
    ),
    RequestCode.RECALL_MESSAGE: Handler(Who.LEADER, read_recall, needs_of_recall, decided(recall)),
}


class Delay:
    """Delivers messages when they are due; serves send-back (36) and recall (370) of messages.

    `interceptors` decide on the way into the log whether a message has to wait.
    `is_ordered(group)`: a member of the group holds a lock of a queue.
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
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        *,
        is_ordered: Callable[[str], bool],
    ) -> None:
        """Delivers from now on, while this node leads."""
        config, owned = environment.config, environment.owned
        outcomes = OutcomeWriter(
            state,
            appender,
            tables.queue_offsets,
            tables.settling,
            host=pack_host(environment.advertised),
            when_dispatched=derived.when_dispatched,
        )
        self.delivery = leadership_parts.add(
            Delivery(
                outcomes,
                reader,
                leads=lambda: leadership.leads,
                now=owned.time,
                now_ms=environment.clock.time_ms,
                call_later=owned.call_later,
            ),
            Delivery.leadership_ended,
        )
        leadership.on_change(self.delivery.role_changed)
        derived.grown.append(self.delivery.queue_grew)
        delays = Delays(state, tables.queue_offsets, broker_name=config.broker_name)
        ports = DelayPorts(
            delays=delays,
            outcomes=outcomes,
            config=config,
            live=environment.live,
            derived=derived,
            is_ordered=is_ordered,
            reader=reader,
            state=state,
            writer=writer,
        )
        self.interceptors: tuple[Interceptor, ...] = (
            RetryTopics(ports, delays).intercept,
            delays.intercept,
        )
        self.handlers = bind(ports, ROUTES)
