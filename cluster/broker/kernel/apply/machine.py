"""The replica's events for the broker: committed entries and role changes (dledger's StateMachine).

When a leadership ends, everything that belongs to it is dropped in one call (R9): see
leadership_parts.py. That comes before requests are routed to the next leader.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.ports import LogPort
from cluster.core.apply import AppliedState
from commitlog.errors import StoreDamaged
from commitlog.records.message_fast import scan_record
from dledger.core.configuration import Configuration
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import NodeFailed
from dledger.replica.envelope import members_body, noop_body
from dledger.runtime.role_story import RoleStory


class BrokerMachine:
    """The replica's state machine: derives committed entries, and follows the leadership."""

    def __init__(
        self,
        node_id: NodeId,
        log: LogPort,
        state: AppliedState,
        derived: DerivedStore,
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        tables: LeaderTables,
        now_ms: Callable[[], int],
        *,
        began: Callable[[], None],
    ) -> None:
        """`began` is called when a leadership of this node may take requests."""
        self._node_id, self._log, self._state = node_id, log, state
        self._derived, self._leadership = derived, leadership
        self._tables, self._now_ms = tables, now_ms
        self._leadership_parts = leadership_parts
        self._began = began

    def apply(self, first: Index, last: Index) -> None:
        """Entries up to `last` are committed."""
        self._derived.apply(last)
        self._tables.repeats.applied(last)
        leadership = self._leadership
        if leadership.role is Role.LEADER and not leadership.leads:
            self._prepare_to_lead(last)

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """The replica's role, term or known leader is another one."""
        leadership = self._leadership
        me = self._node_id
        RoleStory(me, leadership.role, leadership.term, leadership.leader).told(role, term, leader)
        if Role.LEADER in (leadership.role, role):
            self._leadership_parts.leadership_ended()
        leadership.role_changed(role, term, leader)

    def _prepare_to_lead(self, applied: Index) -> None:
        """Once the own no-op is applied, and queues and state show it, requests are served."""
        status = self._log.status()
        if not 0 <= status.noop_index <= applied:
            return
        term = self._leadership.term

        def dispatched(error: NodeFailed | None) -> None:
            if (
                error is None
                and self._leadership.role is Role.LEADER
                and self._leadership.term == term
            ):
                self._leadership.ready(term)
                self._began()

        self._derived.when_dispatched(status.noop_index, dispatched)

    def noop_body(self, term: Term) -> bytearray:
        """The entry that opens a leadership."""
        return noop_body(self._node_id, term, self._next_stamp_ms())

    def members_body(self, configuration: Configuration) -> bytearray:
        """The entry that changes the group."""
        return members_body(configuration, self._next_stamp_ms())

    def _next_stamp_ms(self) -> int:
        """A store time that follows the last one in the log (R24)."""
        store = self._log.store
        self._tables.clock.seen(self._state.store_ms)
        if store.last.index >= store.first_index:
            try:
                last = scan_record(store.entry(store.last.index).body)
                self._tables.clock.seen(last.store_timestamp_ms)
            except StoreDamaged:
                pass  # an entry of another program that is no message has no stamp
        return self._tables.clock.stamp(self._now_ms())


class Unbound:
    """Stands in while the storage is opened: the real machine needs the opened log."""

    def apply(self, first: Index, last: Index) -> None:
        """Raises AssertionError: the real machine must be bound by then."""
        raise AssertionError("nothing is applied before the replica starts")

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Raises AssertionError: the real machine must be bound by then."""
        raise AssertionError("no role before the replica starts")
