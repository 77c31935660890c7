"""Transactions become part of a broker: halves on the send path, 37 and 323, checks by a leader."""

from __future__ import annotations

import functools

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.services import Services
from cluster.broker.transactions.check_back import CheckBacks
from cluster.broker.transactions.halves import Halves
from cluster.broker.transactions.outcomes import Outcomes, ReadHalf
from cluster.core.groups import ClientInfo
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.transactions.rules import CheckRule
from commitlog.hosts import Host, pack_host


def check_rule(config: BrokerConfig) -> CheckRule:
    """When producers are asked, as it is set."""
    return CheckRule(
        config.transaction_timeout_ms,
        config.transaction_check_interval_ms,
        config.transaction_check_max,
    )


def connect(
    services: Services,
    appender: Appender,
    offsets: LeaderQueueOffsets,
    advertised: Host,
    leadership_parts: LeadershipParts,
) -> CheckBacks:
    """Connect everything; once, when `services` are made."""
    state, config = services.state, services.config
    services.sends.parkers.append(Halves(state.halves, offsets).park)
    services.transactions = leadership_parts.add(
        Outcomes(
            appender,
            offsets,
            state.halves,
            services.reader,
            host=pack_host(advertised),
            when_dispatched=services.derived.when_dispatched,
        ),
        Outcomes.leadership_ended,
    )
    checks = leadership_parts.add(
        CheckBacks(
            services.transactions,
            services.writer,
            services.registry,
            services.leadership,
            state.topics,
            advertised=advertised,
            broker_name=config.broker_name,
            now_ms=services.now_ms,
            call_later=services.owned.call_later,
            may_decide=functools.partial(_may_decide, services),
        ),
        CheckBacks.leadership_ended,
    )
    services.leadership.on_change(checks.role_changed)
    return checks


def _may_decide(services: Services, client: ClientInfo, half: ReadHalf) -> bool:
    """The account that the client registered with, as it is now, may write to the half's topic."""
    access = services.access
    if access is None:
        return True
    return access.caller_with(client.address, client.account).allows(half.needs)
