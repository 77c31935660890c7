"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.placement import Interceptor
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.transactions import end_requests
from cluster.broker.transactions.check_back import CheckBacks
from cluster.broker.transactions.halves import Halves
from cluster.broker.transactions.outcomes import Outcomes, ReadHalf
from cluster.broker.transactions.ports import TransactionPorts
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientInfo, ClientRegistry
from cluster.core.transactions.rules import CheckRule
from cluster.protocol.frames import Frame
from cluster.security.access_file import Access
from commitlog.records.hosts import pack_host


def check_rule(config: BrokerConfig) -> CheckRule:
    """When producers are asked, as it is set."""
    return CheckRule(
        config.transaction_timeout_ms,
        config.transaction_check_interval_ms,
        config.transaction_check_max,
    )


class Transactions:
    """Halves, their outcomes (37, 323) and checks (39).

    `interceptor` takes halves out of the way into the log. `route` serves a request again from the
    beginning.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        log: LogPort,
        state: AppliedState,
        tables: LeaderTables,
        appender: Appender,
        writer: StateWriter,
        reader: RecordReader,
        derived: DerivedStore,
        registry: ClientRegistry,
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        access: Access,
        *,
        route: Callable[[Any, Frame], None],
    ) -> None:
        """Producers are asked about their halves from now on, while this node leads."""
        config, advertised = environment.config, environment.advertised
        now_ms = environment.clock.time_ms
        self.outcomes = leadership_parts.add(
            Outcomes(
                appender,
                tables.queue_offsets,
                state.halves,
                reader,
                host=pack_host(advertised),
                when_dispatched=derived.when_dispatched,
            ),
            Outcomes.leadership_ended,
        )
        checks = leadership_parts.add(
            CheckBacks(
                self.outcomes,
                writer,
                registry,
                leadership,
                state.topics,
                advertised=advertised,
                broker_name=config.broker_name,
                now_ms=now_ms,
                call_later=environment.owned.call_later,
                may_decide=functools.partial(_may_decide, access),
            ),
            CheckBacks.leadership_ended,
        )
        leadership.on_change(checks.role_changed)
        ports = TransactionPorts(
            transactions=self.outcomes,
            derived=derived,
            leadership=leadership,
            log=log,
            now_ms=now_ms,
            route=route,
            writer=writer,
        )
        self.interceptor: Interceptor = Halves(state.halves, tables.queue_offsets).intercept
        self.handlers = bind(ports, end_requests.ROUTES)


def _may_decide(access: Access, client: ClientInfo, half: ReadHalf) -> bool:
    """The account that the client registered with, as it is now, may write to the half's topic."""
    return access.caller_with(client.address, client.account).allows(half.needs)
