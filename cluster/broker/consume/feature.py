"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cluster.broker.consume import (
    assignment_requests,
    consumer_requests,
    lock_requests,
    raw_ranges,
)
from cluster.broker.consume.lock_keeper import Locks
from cluster.broker.consume.long_poll import LongPolls, SuspendedPull
from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.consume.pull import PullPath, WaitingPull
from cluster.broker.consume.topic_routes import TopicRoutes
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.current import CurrentReads
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.read.wanted import Subscriptions
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.core.locks import LockLeases
from cluster.errors import ClusterError
from cluster.protocol.frames import Frame
from cluster.security.access_file import Access

_ROUTES = (
    assignment_requests.ROUTES,
    consumer_requests.ROUTES,
    lock_requests.ROUTES,
    raw_ranges.ROUTES,
)


class Consume:
    """Pulls, offsets, orderly locks and assigned queues.

    `pulls` is called without a table (`Router.add_hot_paths`); `polls` are pulls that wait.
    `route` serves a request from the beginning, `ask_again` asks the next leader, `judge_again`
    serves one that waited by the rights that its account has now.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        log: LogPort,
        state: AppliedState,
        writer: StateWriter,
        offsets: OffsetKeeper,
        derived: DerivedStore,
        reader: RecordReader,
        queues: QueueReader,
        subscriptions: Subscriptions,
        reads: CurrentReads,
        registry: ClientRegistry,
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        access: Access,
        *,
        route: Callable[[Any, Frame], None],
        ask_again: Callable[[Any, Frame], None],
        judge_again: Callable[[Any, Frame], None],
        to_error: Callable[[Exception], ClusterError],
        young_bytes_max: int,
    ) -> None:
        """Records so near the log's end as `young_bytes_max` count as in memory."""
        config, owned = environment.config, environment.owned
        self._route, self._call_soon, self._now = route, owned.call_soon, owned.time
        self.polls = self._polls(environment, leadership)
        leadership_parts.add(self.polls, LongPolls.leadership_ended)
        derived.eager.append(lambda: self.polls.count > 0)
        self.pulls = PullPath(
            config,
            derived,
            queues,
            subscriptions,
            self.polls,
            access,
            when_current=reads.when_current,
            to_error=to_error,
            mistake=lambda: owned.spared("a waiting pull failed"),
            ask_again=ask_again,
            judge_again=judge_again,
        )
        self.locks = Locks(LockLeases(state.locks), writer, now=owned.time)
        leadership_parts.add(self.locks, Locks.leadership_ended)
        self.topic_routes = TopicRoutes(config, state.topics, owned)
        self._ports = ConsumePorts(
            locks=self.locks,
            topic_routes=self.topic_routes,
            config=config,
            derived=derived,
            leadership=leadership,
            log=log,
            now=owned.time,
            offsets=offsets,
            queues=queues,
            reader=reader,
            registry=registry,
            state=state,
            writer=writer,
            young_bytes_max=young_bytes_max,
        )
        self.handlers = bind(self._ports, *_ROUTES)

    def _polls(self, environment: BrokerEnvironment, leadership: Leadership) -> LongPolls:
        owned = environment.owned
        return LongPolls(
            environment.config.long_polls_max,
            now=owned.time,
            call_at=owned.call_at,
            leads=lambda: leadership.leads,
            ended=self._route_again,
        )

    def _route_again(self, pulls: Sequence[SuspendedPull]) -> None:
        """Pulls that waited when a leadership ended are routed again, in a later turn."""

        def again() -> None:
            for pull in pulls:
                assert isinstance(pull, WaitingPull)
                pull.route_again(self._route)

        self._call_soon(again)

    def is_ordered(self, group: str) -> bool:
        """True while a member of the group holds a lock of a queue."""
        return self.locks.leases.is_locked(group, self._now())
