"""What the replica tells the broker: committed entries and role changes (dledger's StateMachine).

Order when a leadership ends: the replica has told every proposal already; then what was not
proposed, repeats, offsets and parked pulls are told, and the leader-only tables are dropped (R9).
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.appender import Appender
from cluster.broker.dedup import Cursors
from cluster.broker.repeats import RepeatsWaiting
from cluster.broker.services import Services
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.store_time import StoreClock
from commitlog.errors import StoreDamaged
from commitlog.message_fast import scan_record
from dledger.core.types import Index, NodeId, Role, Term
from dledger.envelope import noop_body
from dledger.errors import OutcomeUnknown


class BrokerMachine:
    """Bound to the other parts by `bind`, before the replica starts."""

    def __init__(self, clock: StoreClock, now_ms: Callable[[], int]) -> None:
        self._clock, self._now_ms = clock, now_ms
        self._began: Callable[[], None] = lambda: None
        self._ended: Callable[[], None] = lambda: None

    def bind(
        self,
        services: Services,
        appender: Appender,
        repeats: RepeatsWaiting,
        queue_offsets: LeaderQueueOffsets,
        cursors: Cursors,
        *,
        began: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        """`began` and `ended`: what else starts and stops with a leadership."""
        self._services, self._appender = services, appender
        self._repeats, self._queue_offsets = repeats, queue_offsets
        self._cursors = cursors
        self._began, self._ended = began, ended

    def apply(self, first: Index, last: Index) -> None:
        """Entries up to `last` are committed."""
        services = self._services
        services.derived.apply(last)
        self._repeats.applied(last)
        leadership = services.leadership
        if leadership.role is Role.LEADER and not leadership.leads:
            self._prepare_to_lead(last)

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """The replica's role, term or known leader is another one."""
        services = self._services
        was_leading = services.leadership.leads
        if was_leading or role is Role.LEADER:
            self._drop_tables(services)
        services.leadership.role_changed(role, term, leader)
        if was_leading:
            self._ended()

    def _drop_tables(self, services: Services) -> None:
        self._appender.drop(services.leader_address())
        self._repeats.drop(
            OutcomeUnknown("leadership ended before the original was committed; send it again")
        )
        services.offsets.drop()
        self._queue_offsets.drop()
        self._cursors.drop()
        services.state.producers.drop_uncommitted()
        services.sends.invalidate()

    def _prepare_to_lead(self, applied: Index) -> None:
        """Once the own no-op is applied, and queues and state show it, requests are served."""
        services = self._services
        status = services.log.status()
        if not 0 <= status.noop_index <= applied:
            return
        term = services.leadership.term

        def dispatched() -> None:
            if services.leadership.role is Role.LEADER and services.leadership.term == term:
                services.leadership.ready(term)
                self._began()

        services.derived.when_dispatched(status.noop_index, dispatched)

    def noop_body(self, term: Term) -> bytearray:
        """The entry that opens a leadership; its stamp follows the last one in the log (R24)."""
        services = self._services
        store = services.log.store
        self._clock.seen(services.state.store_ms)
        if store.last.index >= store.first_index:
            try:
                last = scan_record(store.entry(store.last.index).body)
                self._clock.seen(last.store_timestamp_ms)
            except StoreDamaged:
                pass  # an entry of another program that is no message has no stamp
        return noop_body(NodeId(services.config.node_id), term, self._clock.stamp(self._now_ms()))


class Unbound:
    """Stands in while the storage is opened: the real machine needs the opened log."""

    def apply(self, first: Index, last: Index) -> None:
        raise AssertionError("nothing is applied before the replica starts")

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        raise AssertionError("no role before the replica starts")
