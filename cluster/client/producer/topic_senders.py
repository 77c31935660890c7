"""Chooses the queue of a message among those of its topic.

queue_id given    that queue
key given         CRC-32 of the key, modulo the number of queues: one key keeps its order
neither           the queues in turn, one per turn of the event loop, so that batches form
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.client.producer.queue_sender import QueueSender
from cluster.client.routing.routes import Routes
from cluster.errors import InvalidRequest
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import TopicRoute
from commitlog.records.checksum import crc32


class TopicSenders:
    """The queue senders of one topic of one producer, in order of their queues.

    Attributes:
        senders: one for each queue that can be written to; empty before the first `follow`.
        sender: the sender whose turn it is, in the turn of the event loop with number `turn`.
    """

    __slots__ = (
        "_by_id",
        "_place",
        "_route",
        "_routes",
        "_sender_of",
        "_topic",
        "sender",
        "senders",
        "turn",
    )

    sender: QueueSender

    def __init__(
        self, topic: str, routes: Routes, sender_of: Callable[[MessageQueue], QueueSender]
    ) -> None:
        """`sender_of` gives the producer's sender of a queue, and makes it when it is new."""
        self._topic, self._routes, self._sender_of = topic, routes, sender_of
        self.senders: Sequence[QueueSender] = []
        self.turn = -1
        self._by_id: dict[int, list[QueueSender]] = {}
        self._route: TopicRoute | None = None
        self._place = 0

    def follow(self, route: TopicRoute) -> None:
        """Take the queues of `route`."""
        self._route = route
        self.senders = [self._sender_of(queue) for queue in route.write_queues(self._topic)]
        self._by_id = {}
        for sender in self.senders:
            self._by_id.setdefault(sender.queue.queue_id, []).append(sender)
        self._place %= max(len(self.senders), 1)

    def of_turn(self, turn: int) -> QueueSender:
        """The sender of the turn with this number: the next one if the turn is new."""
        if self.turn != turn:
            self.turn = turn
            self._refresh()
            self._place = (self._place + 1) % len(self.senders)
            self.sender = self.senders[self._place]
        return self.sender

    def of_key(self, key: str) -> QueueSender:
        """The sender that messages with this key go to while the number of queues stays."""
        self._refresh()
        return self.senders[crc32(key.encode()) % len(self.senders)]

    def of_queue(self, queue_id: int) -> QueueSender:
        """The first sender to a queue with this number.

        Raises:
            InvalidRequest: the topic has no such queue.
        """
        senders = self._by_id.get(queue_id)
        if not senders:
            raise InvalidRequest(
                f"queue {queue_id} does not exist; name one of 0 to {max(self._by_id, default=-1)}"
            )
        return senders[0]

    def _refresh(self) -> None:
        """Follow a newer route: queues may have been added, or brokers may have left."""
        route = self._routes.known(self._topic)
        if route is not None and route is not self._route and route.write_queues(self._topic):
            self.follow(route)
