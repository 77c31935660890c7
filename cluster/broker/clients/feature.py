"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

from cluster.broker.clients import asking, connections, heartbeats, subscription_check
from cluster.broker.clients.notices import Notices
from cluster.broker.clients.ports import ClientPorts
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.filter_bits import FilterBits
from cluster.core.groups import Change, ClientRegistry

#: Its requests, by file.
TABLES = (
    asking.ROUTES,
    connections.ROUTES,
    heartbeats.ROUTES,
    subscription_check.ROUTES,
)


class Clients:
    """Heartbeats of clients, the members of groups, and questions that members answer.

    `notices` are pulls of consumers that wait at the relay port for news of a leader.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        state: AppliedState,
        writer: StateWriter,
        offsets: OffsetKeeper,
        reader: RecordReader,
        registry: ClientRegistry,
        calls: ClientCalls,
        filters: FilterBits | None,
        leadership: Leadership,
    ) -> None:
        config, owned = environment.config, environment.owned
        self.notices = Notices(
            config.long_polls_max,
            config.long_poll_seconds_max,
            now=owned.time,
            call_at=owned.call_at,
        )
        self._ports = ClientPorts(
            calls=calls,
            config=config,
            filters=filters,
            later=owned.call_later,
            leadership=leadership,
            live=environment.live,
            now=owned.time,
            now_ms=environment.clock.time_ms,
            offsets=offsets,
            reader=reader,
            registry=registry,
            state=state,
            writer=writer,
        )
        self.handlers = bind(self._ports, *TABLES)

    def left(self, change: Change) -> None:
        """Members have gone: the others are told, and offsets of empty groups are logged."""
        ports = self._ports
        for group in change.emptied if ports.leadership.leads else ():
            ports.offsets.flush(group)
        heartbeats.tell_left(ports, change)
