"""PopWaits holds pops and notifications until a queue of their topic gets a message.

    suspend(waiter) ─► a queue of its topic, or of one of its retry topics, grew ─► tries again
                    ─► its time is over ─► answered without a message

A notification only asks whether a message is there. A new message wakes the waiters of its topic,
oldest first; the first one takes it, and the others find none and go on waiting. At most
`count_max` wait at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from cluster.broker.kernel.events.deadlines import Deadlines

if TYPE_CHECKING:
    from cluster.broker.kernel.net.requests import Call


class Waiter(Protocol):
    """One request that waits."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The request's topic, then the retry topics in which its messages come back."""
        ...

    @property
    def queue_id(self) -> int:
        """The queue that the request asks for; -1: any queue of the topic."""
        ...

    @property
    def key(self) -> tuple[str, str, int]:
        """Topic, group and queue id, by which `PopWaits.number_of` counts waiters."""
        ...

    @property
    def settled(self) -> bool:
        """True once the request was answered or routed again, or its connection has closed."""
        ...

    def wake(self) -> None:
        """Look for messages again, as one may have come; answer if there is one."""
        ...

    def expire(self) -> None:
        """Answer the request, because its time is over."""
        ...

    def route_again(self) -> Call:
        """Stop waiting, as this node no longer leads; return the request for the next leader."""
        ...


class PopWaits:
    """All waiters of one broker. Times are seconds of the event loop's clock."""

    def __init__(
        self,
        count_max: int,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
        leads: Callable[[], bool],
        ended: Callable[[Sequence[Waiter]], None],
    ) -> None:
        """`ended` gets the waiters when this node no longer leads, which `leads` tells.

        They must not wait here then: a follower may lack messages that the leader has.
        """
        self._count_max = count_max
        self._by_topic: dict[str, dict[int, Waiter]] = {}
        self._deadlines: Deadlines[Waiter] = Deadlines(self._expire, now=now, call_at=call_at)
        self.count = 0
        self._leads, self._ended = leads, ended

    def suspend(self, waiter: Waiter, seconds: float) -> bool:
        """Hold `waiter` for `seconds`; False when too many wait already."""
        if not self._leads():  # the lead was lost after the waiter looked for a message
            self._ended([waiter])
            return True
        if self.count >= self._count_max:
            return False
        number = self._deadlines.add(waiter, seconds)
        for topic in waiter.topics:
            self._by_topic.setdefault(topic, {})[number] = waiter
        self.count += 1
        return True

    def number_of(self, key: tuple[str, str, int]) -> int:
        """How many wait for that topic, group and queue id."""
        waiting = self._by_topic.get(key[0], {})
        return sum(waiter.key == key and not waiter.settled for waiter in waiting.values())

    def queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Messages below `max_offset` can be read now."""
        if topic in self._by_topic:
            self._wake(topic, queue_id)

    def wake(self, topic: str) -> None:
        """Wake the waiters of this topic, on all queues: messages of it may be taken again."""
        if topic in self._by_topic:
            self._wake(topic, None)

    def _wake(self, topic: str, queue_id: int | None) -> None:
        for number, waiter in list(self._by_topic[topic].items()):
            wanted = -1 if topic != waiter.topics[0] else waiter.queue_id
            if not waiter.settled and (queue_id is None or wanted in (-1, queue_id)):
                waiter.wake()
            if waiter.settled:
                self._remove(number, waiter)

    def leadership_ended(self) -> None:
        """Move all waiting requests to the next leader."""
        if self._by_topic:
            self._ended(self.drop_all())

    def drop_all(self) -> list[Waiter]:
        """Remove all waiters; return those that are not answered."""
        waiters = self._deadlines.clear()
        self._by_topic.clear()
        self.count = 0
        return [waiter for waiter in waiters.values() if not waiter.settled]

    def _expire(self, number: int, waiter: Waiter) -> None:
        self._remove(number, waiter)
        if not waiter.settled:
            waiter.expire()

    def _remove(self, number: int, waiter: Waiter) -> None:
        suspended = False
        for topic in waiter.topics:
            waiting = self._by_topic.get(topic)
            if waiting is not None and waiting.pop(number, None) is not None:
                suspended = True
                if not waiting:
                    del self._by_topic[topic]
        self.count -= suspended
