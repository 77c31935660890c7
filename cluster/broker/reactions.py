"""What follows from what: the broker's parts react to roles, to new messages and to new topics.

leader known or changed ─► links · registrations passed on again · name servers · own clients
leadership began        ─► lock leases · groups of connected consumers exist · store clock
leadership ended        ─► suspended pulls and pops are routed again
queue grew              ─► long polls
topics changed          ─► name servers · send targets
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.broker.components import BrokerComponents
from cluster.broker.consume.long_poll import SuspendedPull
from cluster.broker.consume.pull import WaitingPull
from cluster.broker.kernel.events.leadership import Serving
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.write.group_creation import ensure_group
from cluster.broker.pop.waiting import Waiter
from cluster.core.internal_topics import StateChange, TopicsChanged
from cluster.errors import ClusterError
from cluster.protocol.codes import VERSION_OWN, RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import LeaderChangedNotice, encode


class Reactions:
    """Connects listeners; holds no state of its own but who led last."""

    def __init__(self, parts: BrokerComponents) -> None:
        self._parts, self._owned = parts, parts.owned
        self._told: tuple[str | None, int] = (None, -1)

    def connect(self) -> None:
        parts = self._parts
        parts.derived.grown.append(parts.polls.queue_grew)
        parts.derived.grown.append(parts.pop.waits.queue_grew)
        parts.derived.changed.append(self._state_changed)
        parts.leadership.on_change(self._leases_begin)
        parts.leadership.on_change(self._role_changes)
        parts.machine.began = self._began
        parts.polls.leads = parts.pop.waits.leads = lambda: parts.leadership.leads
        parts.polls.ended = self._route_pulls
        parts.pop.waits.ended = self._route_pops

    def _leases_begin(self) -> None:
        """Before the first request of this leadership is served."""
        parts = self._parts
        if parts.leadership.leads:
            parts.locks.begin()

    def _role_changes(self) -> None:
        self._owned.call_soon(self._role_changed)

    def _role_changed(self) -> None:
        """Runs in a turn of its own, never inside the replica."""
        parts = self._parts
        leadership = parts.leadership
        following = leadership.serving is Serving.FOLLOWING
        parts.links.lead_by(leadership.leader if following else None)
        if leadership.serving is Serving.WAITING:
            return
        now = (leadership.leader, leadership.term)
        if now == self._told:
            return
        self._told = now
        if following:
            parts.router.announcements.announce_again(list(parts.server.connections))
        parts.registrar.announce()
        self._tell_own_clients()

    def _tell_own_clients(self) -> None:
        """31010 to clients of ours, so that they need not wait for their next look at the route."""
        parts = self._parts
        address = parts.leader_address()
        if address is None:
            return
        notice = Frame(
            RequestCode.NOTIFY_LEADER_CHANGED,
            0,
            encode(LeaderChangedNotice(parts.config.broker_name, address, parts.leadership.term)),
            flag=FLAG_ONEWAY,
            version=VERSION_OWN,
        )
        for connection in list(parts.server.connections):
            if connection.version >= VERSION_OWN and connection.forwarded_by is None:
                connection.answer(notice)

    def _began(self) -> None:
        parts = self._parts
        self._parts.tables.clock.seen(parts.state.store_ms)
        parts.pop.began()
        for group, _ in list(parts.registry.consumer_groups()):
            if parts.state.groups.get(group) is None:
                self._create_group(group)

    def _create_group(self, group: str) -> None:
        def ignored(error: Exception | None) -> None:
            """The next heartbeat of the group creates it if this did not."""

        parts = self._parts
        try:
            ensure_group(parts.state, parts.writer, group, ignored)
        except ClusterError as error:
            ignored(error)

    def _route_pulls(self, pulls: Sequence[SuspendedPull]) -> None:
        """Those that waited when a leadership ended, in a later turn: whoever leads then serves."""

        def route() -> None:
            for pull in pulls:
                assert isinstance(pull, WaitingPull)
                pull.route_again(self._parts.router.request)

        self._owned.call_soon(route)

    def _route_pops(self, waiters: Sequence[Waiter]) -> None:
        def route() -> None:
            for waiter in waiters:
                call = waiter.route_again()
                assert isinstance(call.client, ClientConnection)
                self._parts.router.request_again(call.client, call.frame)

        self._owned.call_soon(route)

    def _state_changed(self, changes: list[StateChange]) -> None:
        if any(isinstance(change, TopicsChanged) for change in changes):
            self._parts.sends.invalidate()
            self._parts.registrar.announce_topics()
