"""One broker name as name servers have it: its leader, its nodes, and those that may be relays.

Pure; times are seconds of the caller's clock. `registry.py` has the table of all broker names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cluster.nameserver.notify_routes import GroupMembers, members_told
from cluster.nameserver.relays import RelayNode
from cluster.protocol.headers import RegisterBrokerRequest
from cluster.protocol.route import LEADER_ID, BrokerData
from cluster.protocol.topics import TopicConfig

MEMBERS_COUNT_MAX = 64
"""Addresses per broker name: replicas, and the old addresses of moved ones until they expire."""

_NO_TOPICS: Mapping[str, TopicConfig] = {}


@dataclass(slots=True)
class MemberRow:
    """One address; `lease_until` in seconds, `term` of its last registration, "" for no relay."""

    broker_id: int
    lease_until: float
    term: int
    relay: str = ""
    node: str = ""
    serves_notify: bool = False
    serves_rest: bool = False


@dataclass(slots=True)
class BrokerRow:
    """One broker name. `leader` is "" only before any leader was ever known, `before` is the one
    before it.

    `living`: the followers that the leader of `living_term` hears. `relay`: of the leader that
    registered last, so that there is one while nobody registers. `notified`: members that wait
    on notification routes; None while the leader has not told.
    """

    cluster: str
    leader: str = ""
    before: str = ""
    term: int = -1
    heard_at: float = 0.0
    data_version: tuple[int, int] = (-1, -1)
    topics: Mapping[str, TopicConfig] = field(default_factory=lambda: _NO_TOPICS)
    members: dict[str, MemberRow] = field(default_factory=dict)
    living: frozenset[str] = frozenset()
    living_term: int = -1
    relay: RelayNode | None = None
    advertised_relay: str = ""
    notified: GroupMembers | None = None


def may_lead(broker: BrokerRow, address: str, term: int) -> bool:
    """One leader per term, and newer terms win; without terms the last one to speak wins."""
    if term < 0 and broker.term < 0:
        return True
    return term > broker.term or (term == broker.term and address == broker.leader)


def led_by(broker: BrokerRow, address: str, term: int) -> None:
    """Another address leads, or the same one in another term."""
    if address != broker.leader:
        broker.before = broker.leader
    broker.leader, broker.term = address, term


def take_report(broker: BrokerRow, request: RegisterBrokerRequest) -> None:
    """The rest of a leader's registration: its relay, and the followers that it hears."""
    broker.advertised_relay = request.advertised_relay or ""
    broker.relay = None
    if request.relay_addr:
        broker.relay = RelayNode(
            request.broker_addr,
            request.relay_addr,
            bool(request.serves_notify),
            bool(request.serves_rest),
        )
    broker.notified = members_told(request.notified_groups)
    if request.living_nodes is not None:
        living = request.living_nodes.split(",")[:MEMBERS_COUNT_MAX]
        broker.living, broker.living_term = frozenset(living), request.term


def waiting_members(topic: str, brokers: list[BrokerRow]) -> int:
    """Members that wait on a notification route; 0 where a leader says so, or has not told."""
    told = [broker.notified.of(topic) if broker.notified else 0 for broker in brokers]
    return max(told) if all(told) else 0


def takes_part(broker: BrokerRow, address: str, member: MemberRow) -> bool:
    """Does the node pass requests on, as far as its leader and it itself have told?

    It has registered since the last election, and the leader hears it, which tells that a moment
    after it was elected: for as long a dead node counts as heard.
    """
    if address == broker.leader:
        return True
    return member.term >= broker.term and _is_heard(broker, member)


def _is_heard(broker: BrokerRow, member: MemberRow) -> bool:
    """Does the leader hear the node? True also while it has not told which nodes it hears."""
    tells = broker.living_term == broker.term >= 0
    return member.node in broker.living or not tells


def relay_nodes(broker: BrokerRow, now: float) -> list[RelayNode]:
    """Living followers by their broker ids, then the leader, where it has registered.

    In the first moments of a leadership no follower has registered in its term. A route of that
    time is a stock client's for 30 s, and one that leads to the leader twice has no way around it
    when it dies. Then followers of earlier terms are taken, but for the leader before, which is
    most likely dead. None if any node has no relay port: they shall not come and go with leaders.
    """
    members = [member for member in broker.members.values() if member.lease_until > now]
    if broker.advertised_relay or not all(member.relay for member in members):
        return []
    leader = broker.members.get(broker.leader)
    last = _relay_node(broker.leader, leader) if leader is not None else broker.relay
    without = (broker.leader, broker.relay.address if broker.relay is not None else "")
    followers = sorted(
        (member.broker_id, address, member)
        for address, member in broker.members.items()
        if address not in without and member.lease_until > now
    )
    found = [
        _relay_node(address, member)
        for _, address, member in followers
        if takes_part(broker, address, member)
    ] or [
        _relay_node(address, member)
        for _, address, member in followers
        if address != broker.before and member.term < broker.term and _is_heard(broker, member)
    ]
    return found if last is None else [*found, last]


def _relay_node(address: str, member: MemberRow) -> RelayNode:
    return RelayNode(address, member.relay, member.serves_notify, member.serves_rest)


def serves_rest(broker: BrokerRow, now: float) -> bool:
    """Does each node with a lease know where the queues of relays are (next_queues.py)?

    One that is down counts, too: a node of an earlier release comes back as such.
    """
    members = [member for member in broker.members.values() if member.lease_until > now]
    return all(one.serves_rest for one in (*members, *([broker.relay] if broker.relay else ())))


def behind_one_address(broker: BrokerRow, data: BrokerData) -> BrokerData:
    """One address in front of all nodes hides theirs."""
    if not broker.advertised_relay:
        return data
    return replace(data, addresses={LEADER_ID: broker.advertised_relay})
