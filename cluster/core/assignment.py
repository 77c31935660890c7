"""Which queues a member of a group gets, worked out by the broker (400; docs/spec/remoting.md 4.5).

    AVG             contiguous ranges of sorted queues; the first members get one more
    AVG_BY_CIRCLE   queue by queue around the circle of members

With POP every member may ask every broker name for messages of any queue (queue id -1), or, when
queues are shared by some, those of its own and of the members after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cluster.core.request_modes import POP, RequestMode
from cluster.protocol.json_body import MessageQueue

ANY_QUEUE = -1

Strategy = Callable[[int, int, int], list[int]]
"""(member's place, members, queues) → places of its queues."""


def average(place: int, members: int, queues: int) -> list[int]:
    """RocketMQ's AllocateMessageQueueAveragely."""
    more = queues % members
    size = 1 if queues <= members else queues // members + (place < more)
    begin = place * size + (0 if place < more else more)
    return [(begin + i) % queues for i in range(max(min(size, queues - begin), 0))]


def by_circle(place: int, members: int, queues: int) -> list[int]:
    """RocketMQ's AllocateMessageQueueAveragelyByCircle."""
    return list(range(place, queues, members))


STRATEGIES: Mapping[str, Strategy] = {"AVG": average, "AVG_BY_CIRCLE": by_circle}


def assign(
    strategy: Strategy,
    client: str,
    members: Sequence[str],
    queues: Sequence[MessageQueue],
    mode: RequestMode,
) -> list[MessageQueue]:
    """The queues of `client`; none when it is no member. Sorted, each once."""
    clients, places = sorted(members), sorted(queues)
    if client not in clients or not places:
        return []
    place = clients.index(client)
    if mode.mode != POP:
        return sorted(places[i] for i in strategy(place, len(clients), len(places)))
    if mode.share <= 0:
        return sorted({queue._replace(queue_id=ANY_QUEUE) for queue in places})
    if len(clients) > len(places):
        return [places[place % len(places)]]
    found: set[MessageQueue] = set()
    for step in range(min(mode.share + 1, len(clients))):
        owner = (place + step) % len(clients)
        found.update(places[i] for i in strategy(owner, len(clients), len(places)))
    return sorted(found)
