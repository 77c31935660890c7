"""Consumers that wait for messages: suspended by queue, woken by a message that may be theirs.

    suspend(pull) ─► queue grew ─► tags looked at ─► a match: served at once
                                              └─► none: stays suspended, its scan goes on from there
               ─► its time is over ─► answered "nothing new" (19, or 20 when the scan moved on)

Bounded by `long_polls_max`. A pull whose connection is gone is dropped when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.broker.kernel.events.deadlines import Deadlines


class SuspendedPull(Protocol):
    """One waiting pull. `offset` is the first queue offset not yet looked at for it."""

    offset: int

    @property
    def topic(self) -> str:
        """The topic of the queue that it waits for."""
        ...

    @property
    def queue_id(self) -> int:
        """The number of the queue that it waits for."""
        ...

    @property
    def settled(self) -> bool:
        """True once the pull was answered, or its connection has closed."""
        ...

    def wake(self) -> None:
        """Scan the new messages: answer, or move `offset` on."""
        ...

    def expire(self) -> None:
        """Answer the pull, because its time is over."""
        ...


class LongPolls:
    """All suspended pulls of one broker. Times are seconds of the event loop's clock."""

    def __init__(
        self,
        count_max: int,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
        leads: Callable[[], bool],
        ended: Callable[[Sequence[SuspendedPull]], None],
    ) -> None:
        """`ended` takes the pulls that waited when this node no longer leads.

        Only a leader, as `leads` tells, knows that there is no message.
        """
        self._count_max = count_max
        self._suspended: dict[tuple[str, int], list[SuspendedPull]] = {}
        self._deadlines: Deadlines[SuspendedPull] = Deadlines(
            self._expire, now=now, call_at=call_at
        )
        self.count = 0
        self._leads, self._ended = leads, ended

    def suspend(self, pull: SuspendedPull, seconds: float) -> bool:
        """Keep it for `seconds`. False when too many wait already."""
        if not self._leads():  # no longer, since it was asked whether there is something
            self._ended([pull])
            return True
        if self.count >= self._count_max:
            return False
        self._suspended.setdefault((pull.topic, pull.queue_id), []).append(pull)
        self.count += 1
        self._deadlines.add(pull, seconds)
        return True

    def queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Messages below `max_offset` can be read now."""
        waiting = self._suspended.pop((topic, queue_id), None)
        if waiting is None:
            return
        self.count -= len(waiting)
        for pull in waiting:
            if not pull.settled and pull.offset < max_offset:
                pull.wake()
        kept = [pull for pull in waiting if not pull.settled]
        if kept:
            self._suspended.setdefault((topic, queue_id), []).extend(kept)
            self.count += len(kept)

    def leadership_ended(self) -> None:
        """Move all suspended pulls to the next leader."""
        if self._suspended:
            self._ended(self.drop_all())

    def drop_all(self) -> list[SuspendedPull]:
        """All suspended pulls that are not answered; they are forgotten here."""
        pulls = [pull for waiting in self._suspended.values() for pull in waiting]
        self._suspended.clear()
        self._deadlines.clear()
        self.count = 0
        return [pull for pull in pulls if not pull.settled]

    def _expire(self, _: int, pull: SuspendedPull) -> None:
        self._remove(pull)
        if not pull.settled:
            pull.expire()

    def _remove(self, pull: SuspendedPull) -> None:
        key = (pull.topic, pull.queue_id)
        waiting = self._suspended.get(key, [])
        if pull in waiting:
            waiting.remove(pull)
            self.count -= 1
            if not waiting:
                del self._suspended[key]
