"""Connects events with reactions: the broker's parts react to roles, new messages and new topics.

leader known or changed ─► links · registrations passed on again · name servers · own clients ·
                            consumers that wait at the relay port
leadership began        ─► lock leases · groups of connected consumers exist · store clock
queue grew              ─► long polls
accounts changed        ─► long polls and pops end, and are asked again
topics changed          ─► name servers (the leader) · send targets
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.broker.clients import Clients
from cluster.broker.config import BrokerConfig
from cluster.broker.consume import Consume
from cluster.broker.consume.long_poll import SuspendedPull
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.forward_links import ForwardLinks
from cluster.broker.kernel.net.router import Router
from cluster.broker.kernel.net.server import ClientServer
from cluster.broker.kernel.write.state_writer import StateWriter, ensure_group
from cluster.broker.pop import Pop
from cluster.broker.pop.waiting import Waiter
from cluster.broker.produce import Produce
from cluster.broker.registration import Registrar
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.core.internal_topics import StateChange, TopicsChanged
from cluster.errors import ClusterError
from cluster.protocol.codes import VERSION_OWN, RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import LeaderChangedNotice, encode
from cluster.security.access_file import Access
from dledger.runtime.owned import Owned

ENDED_AT_ONCE = 1000  # requests that waited, in one turn


class Reactions:
    """Connects listeners; of its own it holds the leader that clients were told last."""

    def __init__(
        self,
        config: BrokerConfig,
        owned: Owned,
        state: AppliedState,
        tables: LeaderTables,
        writer: StateWriter,
        derived: DerivedStore,
        registry: ClientRegistry,
        links: ForwardLinks,
        router: Router,
        server: ClientServer,
        registrar: Registrar,
        leadership: Leadership,
        clients: Clients,
        produce: Produce,
        consume: Consume,
        pop: Pop,
        access: Access,
        *,
        leader_address: Callable[[], str | None],
    ) -> None:
        self._config, self._owned, self._state, self._tables = config, owned, state, tables
        self._writer, self._derived, self._registry = writer, derived, registry
        self._links, self._router, self._server = links, router, server
        self._registrar, self._leadership = registrar, leadership
        self._sends, self._consume, self._pop = produce.sends, consume, pop.service
        self._access, self._leader_address = access, leader_address
        self._notices = clients.notices
        self._told: tuple[str | None, int] = (None, -1)
        self._connect()

    def _connect(self) -> None:
        """Register the listeners, in the order in which they are called."""
        self._derived.grown.append(self._consume.polls.queue_grew)
        self._derived.grown.append(self._pop.waits.queue_grew)
        self._derived.changed.append(self._state_changed)
        self._leadership.on_change(self._leases_begin)
        self._leadership.on_change(self._role_changes)
        self._access.on_change(self._accounts_changed)

    def leadership_began(self) -> None:
        """A leadership of this node may take requests from now on."""
        self._tables.clock.seen(self._state.store_ms)
        self._access.spend_until(self._state.store_ms)
        self._pop.began()
        for group, _ in list(self._registry.consumer_groups()):
            if self._state.groups.get(group) is None:
                self._create_group(group)

    def _leases_begin(self) -> None:
        """Before the first request of this leadership is served."""
        if self._leadership.leads:
            self._consume.locks.begin()

    def _role_changes(self) -> None:
        self._owned.call_soon(self._role_changed)

    def _role_changed(self) -> None:
        """Runs in a turn of its own, never inside the replica."""
        leadership = self._leadership
        following = leadership.serving is Serving.FOLLOWING
        self._links.lead_by(leadership.leader if following else None)
        if leadership.serving is Serving.WAITING:
            return
        now = (leadership.leader, leadership.term)
        if now == self._told:
            return
        before, self._told = self._told, now
        if following:
            self._router.announcements.announce_again(list(self._server.connections))
        self._registrar.announce()
        self._tell_own_clients()
        if before[0] is not None:
            self._notices.leader_changed(lambda: self._registrar.is_known(now[1]))

    def _accounts_changed(self) -> None:
        """Pulls and pops that wait end, so that they get no message by the rights of before."""
        waiting = [*self._consume.polls.drop_all(), *self._pop.waits.drop_all()]
        if waiting:
            self._owned.call_soon(self._end_waits, waiting)

    def _end_waits(self, waiting: Sequence[SuspendedPull | Waiter]) -> None:
        for one in waiting[:ENDED_AT_ONCE]:
            if not one.settled:
                one.expire()
        if waiting[ENDED_AT_ONCE:]:
            self._owned.call_soon(self._end_waits, waiting[ENDED_AT_ONCE:])

    def _tell_own_clients(self) -> None:
        """31010 to clients of ours, so that they need not wait for their next look at the route."""
        address = self._leader_address()
        if address is None:
            return
        notice = Frame(
            RequestCode.NOTIFY_LEADER_CHANGED,
            0,
            encode(LeaderChangedNotice(self._config.broker_name, address, self._leadership.term)),
            flag=FLAG_ONEWAY,
            version=VERSION_OWN,
        )
        for connection in list(self._server.connections):
            if connection.version >= VERSION_OWN and connection.forwarded_by is None:
                connection.answer(notice)

    def _create_group(self, group: str) -> None:
        def ignored(error: Exception | None) -> None:
            """The next heartbeat of the group creates it if this did not."""

        try:
            ensure_group(self._state, self._writer, group, ignored)
        except ClusterError as error:
            ignored(error)

    def _state_changed(self, changes: list[StateChange]) -> None:
        if any(isinstance(change, TopicsChanged) for change in changes):
            self._sends.invalidate()
            if self._leadership.leads:  # a follower's registration would say the same, later
                self._registrar.announce_topics()
