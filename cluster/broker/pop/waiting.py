"""Pops and questions that wait for a message on any queue of a topic.

    suspend(waiter) ─► a queue of its topic, or of one of its retry topics, grew ─► tries again
                 ─► its time is over ─► answered "nothing"

Where one message comes, one waiter gets it, and the next ones go on waiting, oldest first. Bounded
by `count_max`.
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
        """-1: any."""
        ...

    @property
    def key(self) -> tuple[str, str, int]:
        """Topic, group, queue id: administrators ask how many wait for each."""
        ...

    @property
    def settled(self) -> bool:
        """True once the request was answered or routed again, or its connection has closed."""
        ...

    def wake(self) -> None:
        """Something may be there: look."""
        ...

    def expire(self) -> None:
        """Answer the request, because its time is over."""
        ...

    def route_again(self) -> Call:
        """Leadership ended: it waits here no longer; the request."""
        ...


class PopWaits:
    """All of one broker. Times are seconds of the event loop's clock."""

    def __init__(
        self,
        count_max: int,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
        leads: Callable[[], bool],
        ended: Callable[[Sequence[Waiter]], None],
    ) -> None:
        """`ended` takes the waiters when this node no longer leads.

        Only a leader, as `leads` tells, knows that there is no message.
        """
        self._count_max = count_max
        self._by_topic: dict[str, dict[int, Waiter]] = {}
        self._deadlines: Deadlines[Waiter] = Deadlines(self._expire, now=now, call_at=call_at)
        self.count = 0
        self._leads, self._ended = leads, ended

    def suspend(self, waiter: Waiter, seconds: float) -> bool:
        """Keep it for `seconds`. False when too many wait already."""
        if not self._leads():  # no longer, since it was asked whether there is something
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
        """All waiting requests that are not answered; they are forgotten here."""
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
