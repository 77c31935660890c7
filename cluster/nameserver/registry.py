"""The brokers, their leaders and their topics: a table with leases.

    register(leader of term 4)    id 0 ─► its address         refused while a newer term is known
    register(follower)            id n ─► its address         may bring news of a newer leader
    silence for a lease           the address leaves routes, unless it is the one under id 0
    the leader names it no more   it is nobody's relay or stand-in (relays.py, spread.py)
    unregister                    the same at once; the last one takes the broker name with it

Pure: `now` (seconds of any monotonic clock) is an argument. Topics travel with a data version that
only grows; an older one never replaces a newer one. Stock brokers send no term (-1) and are taken
at their broker id, as long as the broker name never had a term.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cluster.errors import InvalidRequest, NotDone, QueueFull
from cluster.nameserver.broker_rows import (
    MEMBERS_COUNT_MAX,
    BrokerRow,
    MemberRow,
    behind_one_address,
    led_by,
    may_lead,
    relay_nodes,
    serves_rest,
    take_report,
    takes_part,
    waiting_members,
)
from cluster.nameserver.next_queues import with_next_queues, with_whole_relays
from cluster.nameserver.notify_routes import serving, with_notify_routes
from cluster.nameserver.relays import with_relays
from cluster.nameserver.spread import spread_doors
from cluster.protocol.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from cluster.protocol.route import LEADER_ID, PERM_WRITE, BrokerData, QueueData, TopicRoute
from cluster.protocol.topics import Registration, TopicConfig
from commitlog.address import host_of

LEASE_SECONDS = 120.0
"""How long an address is shown after it was last heard, unless the broker says otherwise."""

FORGET_SECONDS = 600.0
"""A broker name of which nothing was heard for so long is dropped, id 0 included."""

BROKER_NAMES_COUNT_MAX = 10_000


TERM_STEP_MAX = 1 << 32
"""From one registration to the next; ten elections a second take 13 years for so many terms."""


class StaleRegistration(NotDone):
    """A leader of an older term registered; the newer leader stays."""


class Registry:
    """The table. All methods are cheap; `expire` is to be called every few seconds."""

    def __init__(self) -> None:
        self._brokers: dict[str, BrokerRow] = {}

    @property
    def is_empty(self) -> bool:
        """True if no broker has registered yet."""
        return not self._brokers

    def register(
        self, request: RegisterBrokerRequest, registration: Registration, now: float
    ) -> str:
        """Take a broker's registration in; the leader's address as it is known now, "" if none.

        Raises:
            StaleRegistration: it claims to lead and a newer term (or another leader of the same
                term) is known. Its address is kept as a follower's.
            QueueFull: too many broker names or addresses.
            InvalidRequest: no leader can have that term.
        """
        self._check_term(request.broker_name, request.term)
        broker = self._broker(request)
        if request.broker_addr not in broker.members and len(broker.members) >= MEMBERS_COUNT_MAX:
            raise QueueFull(
                f"{request.broker_name} has {MEMBERS_COUNT_MAX} addresses already; "
                "wait until old ones expire"
            )
        lease_ms = request.heartbeat_timeout_millis
        lease = lease_ms / 1000 if lease_ms and lease_ms > 0 else LEASE_SECONDS
        broker.heard_at = now
        broker.members[request.broker_addr] = MemberRow(
            request.broker_id,
            now + lease,
            request.term,
            request.relay_addr or "",
            request.node_id or "",
            bool(request.serves_notify),
            bool(request.serves_rest),
        )
        if request.cluster_name:
            broker.cluster = request.cluster_name
        if request.broker_id == LEADER_ID:
            if not may_lead(broker, request.broker_addr, request.term):
                raise StaleRegistration(
                    f"{request.broker_addr} registered as leader of {request.broker_name} in term "
                    f"{request.term}, but {broker.leader} leads it in term {broker.term}"
                )
            led_by(broker, request.broker_addr, request.term)
            take_report(broker, request)
        elif request.leader_addr and request.term > broker.term:
            led_by(broker, request.leader_addr, request.term)
        _take_topics(broker, registration)
        return broker.leader

    def unregister(self, request: UnregisterBrokerRequest, now: float) -> None:
        """Take an address out, unless it registered again in a newer term.

        Raises InvalidRequest.
        """
        self._check_term(request.broker_name, request.term)
        broker = self._brokers.get(request.broker_name)
        member = broker.members.get(request.broker_addr) if broker else None
        if broker is None or member is None or request.term < member.term:
            return
        del broker.members[request.broker_addr]
        if not any(other.lease_until > now for other in broker.members.values()):
            del self._brokers[request.broker_name]

    def expire(self, now: float) -> None:
        """Forget addresses with an expired lease, and broker names that are long silent."""
        for name, broker in list(self._brokers.items()):
            if broker.heard_at + FORGET_SECONDS <= now:
                del self._brokers[name]
                continue
            for address, member in list(broker.members.items()):
                if member.lease_until <= now:
                    del broker.members[address]

    def route(
        self,
        topic: str,
        now: float,
        order_topic_conf: str | None = None,
        *,
        stock: bool = False,
        relays: bool = False,
        tries_next: bool = False,
        notify: bool = False,
        wiped: Collection[str] = (),
    ) -> TopicRoute | None:
        """Where the topic is, or None when no broker serves it.

        Args:
            stock: for a client that knows id-0 addresses only (spread.py, advertised relays).
            relays: with relay names, for such a client (relays.py).
            tries_next: it tries a failed send again on the next queue of its list (next_queues.py).
            notify: with notification names, for such a client (notify_routes.py).
            wiped: broker names that nobody shall write to (205).
        """
        found = [
            (name, broker, config)
            for name, broker in sorted(self._brokers.items())
            if (config := broker.topics.get(topic)) is not None
        ]
        if not found:
            return None
        brokers = [_data(name, broker, now) for name, broker, _ in found]
        if stock:
            brokers = spread_doors(brokers, _able([broker for _, broker, _ in found], now))
            brokers = [
                behind_one_address(row[1], data) for row, data in zip(found, brokers, strict=True)
            ]
        route = TopicRoute(
            tuple(brokers),
            tuple(
                _queues(name, config, ~PERM_WRITE if name in wiped else -1)
                for name, _, config in found
            ),
            order_topic_conf,
        )
        if not stock or any(config.order for _, _, config in found):
            return route
        nodes = {name: relay_nodes(broker, now) for name, broker, _ in found}
        if relays:
            shown = with_relays
            if tries_next:
                knows = all(serves_rest(broker, now) for _, broker, _ in found)
                shown = with_next_queues if knows else with_whole_relays
            route = shown(topic, route, nodes)
        if notify:
            members = waiting_members(topic, [broker for _, broker, _ in found])
            empty = {name: serving(broker.leader, nodes[name]) for name, broker, _ in found}
            route = with_notify_routes(topic, route, empty, members)
        return route

    def brokers(self, now: float, *, stock: bool = False) -> list[BrokerData]:
        """Every broker name, sorted. `stock`: as in `route`."""
        found = sorted(self._brokers.items())
        brokers = [_data(name, broker, now) for name, broker in found]
        if not stock:
            return brokers
        return [behind_one_address(row[1], data) for row, data in zip(found, brokers, strict=True)]

    def topics(self) -> list[str]:
        """Every topic of any broker, sorted."""
        return sorted({topic for broker in self._brokers.values() for topic in broker.topics})

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Every topic of the cluster's brokers, sorted."""
        brokers = [broker for broker in self._brokers.values() if broker.cluster == cluster]
        return sorted({topic for broker in brokers for topic in broker.topics})

    def topics_of_broker(self, broker_name: str) -> Mapping[str, TopicConfig]:
        """None but a broker that is known has any."""
        broker = self._brokers.get(broker_name)
        return broker.topics if broker is not None else {}

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Show the topic no more, until a broker registers it again. `cluster` None: everywhere."""
        for broker in self._brokers.values():
            if cluster in (None, broker.cluster) and topic in broker.topics:
                rows = {name: row for name, row in broker.topics.items() if name != topic}
                broker.topics = rows

    def is_newest(self, broker_name: str, version: tuple[int, int]) -> bool:
        """True if the broker registered this (timestamp, counter) last."""
        broker = self._brokers.get(broker_name)
        return broker is not None and broker.data_version == version

    def data_version(self, broker_name: str) -> tuple[int, int]:
        """(timestamp, counter) of a broker's topics; -1 for an unknown broker."""
        broker = self._brokers.get(broker_name)
        return broker.data_version if broker is not None else (-1, -1)

    def _check_term(self, broker_name: str, term: int) -> None:
        """Refuse a term far beyond the known one: it would keep every true leader out."""
        broker = self._brokers.get(broker_name)
        known = max(broker.term, 0) if broker is not None else 0
        if not -1 <= term <= known + TERM_STEP_MAX:
            raise InvalidRequest(
                f"term {term} of {broker_name[:255]} is impossible: term {known} is the newest "
                "known here; look for who registers it"
            )

    def _broker(self, request: RegisterBrokerRequest) -> BrokerRow:
        broker = self._brokers.get(request.broker_name)
        if broker is None:
            if len(self._brokers) >= BROKER_NAMES_COUNT_MAX:
                raise QueueFull(
                    f"{BROKER_NAMES_COUNT_MAX} broker names are registered already; wait until old "
                    "ones expire"
                )
            broker = self._brokers[request.broker_name] = BrokerRow(request.cluster_name)
        return broker


def _able(brokers: list[BrokerRow], now: float) -> set[str]:
    """Addresses that may stand in for their leader: of nodes that registered since every election.

    One that is silent since a leader was elected may be the node whose death caused the election.
    One that a leader does not hear may have died without any election.
    """
    live = [
        (
            address,
            member.term,
            member.term < broker.term or not takes_part(broker, address, member),
        )
        for broker in brokers
        for address, member in broker.members.items()
        if member.lease_until > now
    ]
    silent = {host_of(address) for address, _, is_silent in live if is_silent}
    return {address for address, term, _ in live if term >= 0 and host_of(address) not in silent}


def _take_topics(broker: BrokerRow, registration: Registration) -> None:
    version = (registration.timestamp_ms, registration.data_version)
    if version >= broker.data_version:
        broker.data_version = version
        broker.topics = registration.topics


def _data(name: str, broker: BrokerRow, now: float) -> BrokerData:
    addresses: dict[int, str] = {LEADER_ID: broker.leader} if broker.leader else {}
    others = sorted(
        (member.broker_id, address)
        for address, member in broker.members.items()
        if address != broker.leader and member.lease_until > now
    )
    for broker_id, address in others:
        free = max(broker_id, 1)
        while free in addresses:
            free += 1
        addresses[free] = address
    return BrokerData(name, broker.cluster, addresses, term=broker.term)


def _queues(name: str, config: TopicConfig, perm_mask: int) -> QueueData:
    return QueueData(
        name,
        config.read_queue_count,
        config.write_queue_count,
        config.perm & perm_mask,
        config.topic_sys_flag,
    )
