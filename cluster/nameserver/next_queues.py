"""The order of queues for a Go client, which tries a failed send again on the next one.

It does so whatever the broker name (rocketmq-client-go 2.1.2, `sendSync`: the name of the last
broker is lost in an inner scope), four times in all unless it was told another number. It goes
round this list, which is the order of the route's rows, reversed:

    broker-a     queue 0 to write, all to read         the leader
    ~1@broker-a  queues 0 to 2, which are 1, 2 and 3   a follower's relay port
    broker-a     queue 0 to write, none to read        the leader
    ~3@broker-a  queues 0 to 2, which are 1, 2 and 3   another follower's, where there is one

So each queue comes up equally often, and no four queues in a row are at one node, whichever node is
down, also while one follower only lives and is both relays. As goroutines share the list, attempts
of one of them may lie several queues apart: the leader, which is in the list until the next look
when it dies, therefore has a quarter of the list only. A topic with more than four queues has
longer rows: when their node is down, some sends fail that begin early in one.

What such a client sends does not name the broker, and the queues of a name count from 0. So a
leader knows the queue by its number only, and both relays have the same ones (rest_queues.py).

Pure. Names, rows and their order depend on the topic only; only addresses change (relays.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cluster.nameserver.relays import RelayNode, best, relay_name, relayed, with_relays
from cluster.protocol.rest_queues import first_count, rest_count
from cluster.protocol.route import LEADER_ID, PERM_READ, BrokerData, QueueData
from cluster.protocol.route import TopicRoute as Route
from commitlog.address import host_of

SECOND_PREFIX = "~3@"
"""Of the second relay's name; "~2@" is a notification route's (notify_routes.py)."""

IN_A_ROW = 2
"""Queues of the real name while a node is of an earlier release."""

CREATES_TOPICS = "TBW102"
"""Clients read this topic's route for a topic that does not exist, and create that with it."""

NEW_TOPIC_QUEUES_MAX = 4
"""Of a topic that a Go client creates."""


def with_next_queues(topic: str, route: Route, nodes: Mapping[str, Sequence[RelayNode]]) -> Route:
    """The route in the order for a Go client, or as it was; arguments as of `with_relays`."""
    writable = relayed(topic, route, nodes)
    if not writable:
        return route
    brokers = {broker.broker_name: broker for broker in route.brokers}
    used = {host_of(broker.leader) for broker in route.brokers if broker.leader}
    relays: list[BrokerData] = []
    rows: list[QueueData] = [queues for queues in route.queues if queues not in writable]
    for number, queues in enumerate(writable):
        broker = brokers[queues.broker_name]
        follows = brokers[writable[(number + 1) % len(writable)].broker_name]
        first = best(broker, nodes[broker.broker_name], used)
        second = _second(broker, follows, first, nodes[broker.broker_name])
        used.update((host_of(first.address), host_of(second.address)))
        names = relay_name(broker.broker_name), SECOND_PREFIX + broker.broker_name
        for name, node in zip(names, (first, second), strict=True):
            relays.append(BrokerData(name, broker.cluster, {LEADER_ID: node.relay_address}))
        rows += _rows(topic, queues, names)
    return replace(route, brokers=(*route.brokers, *relays), queues=tuple(rows))


def with_whole_relays(topic: str, route: Route, nodes: Mapping[str, Sequence[RelayNode]]) -> Route:
    """As `with_next_queues` while a node is of an earlier release, where k of a relay is k.

    So each relay has all queues of the topic, in one row.
    """
    counts = {
        queues.broker_name: queues.write_queue_count for queues in relayed(topic, route, nodes)
    }
    relays = {relay_name(name): count for name, count in counts.items() if count > IN_A_ROW}

    def shown(row: QueueData) -> QueueData:
        if row.broker_name in counts:
            return replace(row, write_queue_count=min(row.write_queue_count, IN_A_ROW))
        count = relays.get(row.broker_name)
        return (
            row if count is None else replace(row, read_queue_count=count, write_queue_count=count)
        )

    route = with_relays(topic, route, nodes)
    return replace(route, queues=tuple(shown(row) for row in route.queues))


def _second(
    broker: BrokerData, follows: BrokerData, first: RelayNode, nodes: Sequence[RelayNode]
) -> RelayNode:
    """Neither a leader's that is beside it in the list nor the first relay's, where possible."""
    beside = host_of(follows.leader or "")
    return min(
        nodes,
        key=lambda node: (
            node.address == broker.leader,
            host_of(node.address) == beside,
            node == first,
        ),
    )


def _rows(topic: str, real: QueueData, names: Sequence[str]) -> Iterator[QueueData]:
    """Rows of one broker name; consumers can read only the first one of the leader."""
    count = real.write_queue_count
    if topic == CREATES_TOPICS:  # a client cuts the rows by their readable queues
        count = min(count, NEW_TOPIC_QUEUES_MAX)
        real = replace(real, read_queue_count=first_count(count))
    real = replace(real, write_queue_count=first_count(count))
    only_written = replace(real, read_queue_count=0, perm=real.perm & ~PERM_READ)
    rest = rest_count(count)
    relay = replace(only_written, read_queue_count=rest, write_queue_count=rest)
    first, second = names
    yield real
    yield replace(relay, broker_name=first)
    yield only_written
    yield replace(relay, broker_name=second)
