"""Each broker name of a topic gets a second, write-only name that leads to a living follower.

    broker-a     {0: n0, 2: n1, 3: n2}   queues 0..3, read and write
    ~1@broker-a  {0: n1's relay port}    queue 0, write only; n1 passes sends on to its leader

A stock producer looks at routes every 30 s and tries a failed send again on another broker name. So
the death of n0 costs it one attempt, and no broker is asked for anything new.

A selector that hashes over the queues must reach the same queue whatever nodes come and go.
Therefore only the address of a relay name changes; the name, with its one queue, stays as long as
its broker name does, and a topic has one for each of its writable broker names or none at all.

A Go client tries a failed send again on the next queue of its list, so its routes have another
order (next_queues.py).

Pure. Source of the clients' rules: docs/spec/remoting.md 4.2 and 4.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.protocol.route import LEADER_ID, PERM_READ, PERM_WRITE, BrokerData, QueueData
from cluster.protocol.route import TopicRoute as Route
from commitlog.address import host_of

QUEUES = 1
"""Of a relay. A stock client goes round all queues, so this is its share while the leader lives."""

RELAY_PREFIX = "~1@"
"""Of a relay's name. "~" sorts behind every character that RocketMQ allows in a broker name."""

WITHOUT_RELAYS = ("%RETRY%", "%DLQ%")
"""Beginnings of topics that brokers write to; tools add up their queues."""


@dataclass(frozen=True, slots=True)
class RelayNode:
    """One node of a group: where clients reach it, and the port on which it passes sends on.

    `serves_notify`: queues of notification routes are empty there (notify_routes.py).
    `serves_rest`: what Go clients send there lies in the queues that only relays have for them
    (next_queues.py).
    """

    address: str
    relay_address: str
    serves_notify: bool = False
    serves_rest: bool = False


def relay_name(broker_name: str) -> str:
    """The relay name of a broker name: "broker-a" has "~1@broker-a"."""
    return RELAY_PREFIX + broker_name


def with_relays(topic: str, route: Route, nodes: Mapping[str, Sequence[RelayNode]]) -> Route:
    """The route with a relay name for each writable broker name, or as it was.

    Args:
        topic: retry and dead-letter topics have no relays, nor have topics whose queues are ordered
            over all broker names (`order_topic_conf`).
        route: as a stock client is to see it, so id 0 of a broker name may be a follower.
        nodes: broker name → the nodes that may be its relay, the best one first. A broker name that
            has none (a node alone, a stock broker) keeps relays out of the whole topic.
    """
    writable = relayed(topic, route, nodes)
    brokers = {broker.broker_name: broker for broker in route.brokers}
    used = {host_of(broker.leader) for broker in route.brokers if broker.leader}
    relays = []
    for queues in writable:
        broker = brokers[queues.broker_name]
        node = best(broker, nodes[broker.broker_name], used)
        used.add(host_of(node.address))
        name = relay_name(broker.broker_name)
        relays.append(BrokerData(name, broker.cluster, {LEADER_ID: node.relay_address}))
    return replace(
        route,
        brokers=(*route.brokers, *relays),
        queues=(*route.queues, *(_queues(queues) for queues in writable)),
    )


def relayed(
    topic: str, route: Route, nodes: Mapping[str, Sequence[RelayNode]]
) -> Sequence[QueueData]:
    """The queues of each broker name that has relays: all that can be written to, or none."""
    brokers = {broker.broker_name: broker for broker in route.brokers}
    if topic.startswith(WITHOUT_RELAYS) or route.order_topic_conf:
        return ()
    if any(not nodes.get(name) or name >= RELAY_PREFIX for name in brokers):
        return ()
    return [
        queues
        for queues in route.queues
        if queues.perm & PERM_WRITE
        and queues.write_queue_count  # a name that is emptied has none, and may be read
        and brokers[queues.broker_name].leader
    ]


def best(broker: BrokerData, nodes: Sequence[RelayNode], used: set[str]) -> RelayNode:
    """Not the node under id 0, and on a host that this route does not name yet, where possible."""
    return min(
        nodes,
        key=lambda node: (node.address == broker.leader, host_of(node.address) in used),
    )


def _queues(real: QueueData) -> QueueData:
    """Not to be read; a producer that creates a topic counts the readable ones."""
    return replace(
        real,
        broker_name=relay_name(real.broker_name),
        read_queue_count=QUEUES,
        write_queue_count=QUEUES,
        perm=real.perm & ~PERM_READ,
    )
