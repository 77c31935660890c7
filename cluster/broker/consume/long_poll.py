"""Consumers that wait for messages: parked by queue, woken by a message that may be theirs.

    park(pull) ─► queue grew ─► tags looked at ─► a match: served at once
                                              └─► none: stays parked, its scan goes on from there
               ─► its time is over ─► answered "nothing new" (19, or 20 when the scan moved on)

Bounded by `long_polls_max`. A pull whose connection is gone is dropped when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.broker.kernel.events.deadlines import Deadlines


class ParkedPull(Protocol):
    """One waiting pull. `offset` is the first queue offset not yet looked at for it."""

    offset: int

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def settled(self) -> bool:
        """It was answered, or its connection has closed."""
        ...

    def wake(self) -> None:
        """Look at what is new: answer, or move `offset` on."""
        ...

    def expire(self) -> None:
        """Its time is over: answer."""
        ...


class LongPolls:
    """All parked pulls of one broker. Times are seconds of the event loop's clock."""

    def __init__(
        self,
        count_max: int,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._count_max = count_max
        self._parked: dict[tuple[str, int], list[ParkedPull]] = {}
        self._deadlines: Deadlines[ParkedPull] = Deadlines(self._expire, now=now, call_at=call_at)
        self.count = 0
        #: Only a leader knows that there is nothing; `ended` takes who waited when it no longer
        #: leads. Both are set by reactions.py.
        self.leads: Callable[[], bool] = lambda: True
        self.ended: Callable[[Sequence[ParkedPull]], None] = lambda _: None

    def park(self, pull: ParkedPull, seconds: float) -> bool:
        """Keep it for `seconds`. False when too many wait already."""
        if not self.leads():  # no longer, since it was asked whether there is something
            self.ended([pull])
            return True
        if self.count >= self._count_max:
            return False
        self._parked.setdefault((pull.topic, pull.queue_id), []).append(pull)
        self.count += 1
        self._deadlines.add(pull, seconds)
        return True

    def queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Messages below `max_offset` can be read now."""
        waiting = self._parked.pop((topic, queue_id), None)
        if waiting is None:
            return
        self.count -= len(waiting)
        for pull in waiting:
            if not pull.settled and pull.offset < max_offset:
                pull.wake()
        kept = [pull for pull in waiting if not pull.settled]
        if kept:
            self._parked.setdefault((topic, queue_id), []).extend(kept)
            self.count += len(kept)

    def leadership_ended(self) -> None:
        """Who waits here waits at the next leader from now on."""
        if self._parked:
            self.ended(self.drop_all())

    def drop_all(self) -> list[ParkedPull]:
        """Everything that waited; nothing does any more."""
        pulls = [pull for waiting in self._parked.values() for pull in waiting]
        self._parked.clear()
        self._deadlines.clear()
        self.count = 0
        return [pull for pull in pulls if not pull.settled]

    def _expire(self, _: int, pull: ParkedPull) -> None:
        self._unpark(pull)
        if not pull.settled:
            pull.expire()

    def _unpark(self, pull: ParkedPull) -> None:
        key = (pull.topic, pull.queue_id)
        waiting = self._parked.get(key, [])
        if pull in waiting:
            waiting.remove(pull)
            self.count -= 1
            if not waiting:
                del self._parked[key]
