"""A retry topic gets one more broker name, on which consumers wait for news of a new leader.

    broker-a     {0: n0, 2: n1, 3: n2}            queue 0, as without it
    ~2@broker-a  {1: n1's relay port, 2: n2's}    always empty queues; no id 0
    ~2@broker-a  …                                the same, LISTED times in all

A stock consumer of a group subscribes to the group's retry topic. So one of its pulls waits at n1,
which answers it when another node leads (cluster/broker/clients/notices.py). The consumer then
drops that queue and shares out the queues anew. Before it pulls from the queue again it looks at
the topic's route, since that broker name has no id 0, and what it finds counts for all topics.

To share out queues it asks an address for the members of its group: of a broker name that it draws
from the route's list. The dead leader's is in it, once in 16, since the other one is repeated.

Every member needs such a queue, and members have to agree on the queues that messages come to.
Queues are cut into contiguous ranges, the real ones first, so where there is one real queue the
first member has it whatever the others see; where there are more, all members have to see the same.

Pure. Source of the clients' rules: docs/spec/remoting.md 4.5 and 4.7.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.core.topics import RETRY_PREFIX
from cluster.nameserver.relays import RELAY_PREFIX, RelayNode
from cluster.protocol.route import PERM_READ, BrokerData, QueueData
from cluster.protocol.route import TopicRoute as Route

NOTIFY_PREFIX = "~2@"
"""Of the name with the queues that are always empty."""

LISTED = 15
"""How often its addresses are listed. Clients keep them by name, so that costs no connection."""

QUEUES_MIN = 8
"""Of one notification route. Members see more of them only at a look, and get them 20 s later."""

QUEUES_MAX = 64
"""Of one notification route. A larger group has members that wait for their next look at routes."""

OTHER_GROUPS = "*"
"""In a leader's list, in place of a group: the groups that are not in the list."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Members by retry topic; `others` for topics that are not there."""

    told: Mapping[str, int]
    others: int = 1

    def of(self, topic: str) -> int:
        """Members of the topic's group; 0 if they cannot use a notification route."""
        return self.told.get(topic, self.others)


def members_told(text: str | None) -> GroupMembers | None:
    """Members in a leader's `notified_groups`; None without. Rows without a number do not count.

    A number has seven digits at most.
    """
    if text is None:
        return None
    rows = [row.rpartition(":") for row in text.split(",")]
    told = {group: int(members) for group, _, members in rows if _is_number(members)}
    others = told.pop(OTHER_GROUPS, 1)
    return GroupMembers({RETRY_PREFIX + group: count for group, count in told.items()}, others)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 7


def serving(leader: str, nodes: Sequence[RelayNode]) -> Sequence[RelayNode]:
    """The nodes, or none where one of them passes pulls on to real queues.

    That is a node of an earlier release; one that leads does not tell of members either, so the
    leader has to be among the nodes.
    """
    leads = any(node.address == leader for node in nodes)
    return nodes if leads and all(node.serves_notify for node in nodes) else ()


def with_notify_routes(
    topic: str, route: Route, nodes: Mapping[str, Sequence[RelayNode]], members: int
) -> Route:
    """The route with a notification name for each readable broker name, or as it was.

    Args:
        topic: retry topics only have them.
        route: as a stock client is to see it.
        nodes: broker name → the nodes that may be its relay. The one that leads is left out; a
            broker name without another one keeps the whole topic as it was.
        members: of the group; 0 for a group whose members could not use it.
    """
    if not topic.startswith(RETRY_PREFIX) or members < 1 or route.order_topic_conf:
        return route
    readable = [queues for queues in route.queues if queues.perm & PERM_READ]
    followers = {
        broker.broker_name: _followers(topic, broker, nodes.get(broker.broker_name, ()))
        for broker in route.brokers
    }
    if not readable or not all(followers.values()):
        return route
    if any(name >= RELAY_PREFIX for name in followers):
        return route
    brokers = {broker.broker_name: broker for broker in route.brokers}
    count = _queue_count(members, sum(queues.read_queue_count for queues in readable))
    of_each = -(-count // len(readable))
    names = [
        _name(brokers[queues.broker_name], followers[queues.broker_name]) for queues in readable
    ]
    return replace(
        route,
        brokers=(*route.brokers, *(name for name in names for _ in range(LISTED))),
        queues=(*route.queues, *(_queues(queues, of_each) for queues in readable)),
    )


def _followers(topic: str, broker: BrokerData, nodes: Sequence[RelayNode]) -> list[str]:
    """The followers' relays. Consumers wait at the first one, so groups get different orders."""
    found = [node.relay_address for node in nodes if node.address != broker.leader]
    turn = zlib.crc32(topic.encode()) % max(len(found), 1)
    return found[turn:] + found[:turn]


def _name(broker: BrokerData, followers: Sequence[str]) -> BrokerData:
    addresses = dict(enumerate(followers, 1))
    return BrokerData(NOTIFY_PREFIX + broker.broker_name, broker.cluster, addresses)


def _queue_count(members: int, real: int) -> int:
    """So many that each member has one behind the real ones, wherever its range lies.

    A power of two, so that the queues are not shared out anew whenever a member comes.
    """
    wanted = QUEUES_MIN
    while wanted <= (members - 1) * real and wanted < QUEUES_MAX:
        wanted *= 2
    return wanted


def _queues(real: QueueData, count: int) -> QueueData:
    """Not to be written to."""
    return QueueData(NOTIFY_PREFIX + real.broker_name, count, 0, PERM_READ)
