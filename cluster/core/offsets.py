"""Consumer offsets: the applied table, and the leader's coalescing of commits into records (R25).

A consumer commits an offset per queue every few seconds, each in its own request. `OffsetCommits`
keeps the newest wish of every queue and gives out one record per group and second at most:

    commit(g, t, q, 17) ─┐
    commit(g, t, q, 19) ─┼─► pending[g] ──take(g)──► OffsetsCommitted(g, {t: {q: 19, r: 4}}) ─► log
    commit(g, t, r, 4)  ─┘                  └► in flight until settled(g, ok)

Values that neither the log nor a record in flight would change are not logged; what one record has
no space for goes with the next one. A reader of offsets
asks for `flush(g)` first, waits until it is applied, and then reads the applied table; so what one
request was told another one never contradicts.

Groups whose wishes wait stand in a queue by the time at which they are due: each commit asks for
the earliest one, and looks at no other group.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.core.internal_topics import OffsetsCommitted

RECORD_INTERVAL_SECONDS = 1.0  # at most one record per group in this time (R25)
GROUPS_MAX = 10_000  # groups whose last record is remembered; others may log a little sooner
ROW_SIZE_MAX = 300  # bytes of one queue's offset in a record; names have 255 characters at most
HEAD_SIZE_MAX = 400  # bytes of everything else
WAITERS_MAX = 10_000  # requests that wait for their record, all groups; more are refused as busy


class OffsetTable:
    """(group, topic) → {queue: next offset}: the fold of the log's offset records."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, dict[int, int]]] = {}
        self.changes = 0

    def get(self, group: str, topic: str, queue: int) -> int | None:
        """Next offset to read, or None when the group never committed one here."""
        return self._rows.get(group, {}).get(topic, {}).get(queue)

    def replay(self, change: OffsetsCommitted) -> None:
        """Set the offsets of the change; those of other queues stay."""
        topics = self._rows.setdefault(change.group, {})
        for topic, queues in change.offsets.items():
            topics.setdefault(topic, {}).update(queues)
        self.changes += 1

    def replay_deletion(self, group: str) -> None:
        """Forget all offsets of the group."""
        if self._rows.pop(group, None) is not None:
            self.changes += 1

    def of_group(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """Topic → queue → next offset."""
        return self._rows.get(group, {})

    def groups(self) -> Iterator[tuple[str, Mapping[str, Mapping[int, int]]]]:
        """Each group with topic → queue → next offset."""
        return iter(self._rows.items())

    def restore(self, rows: list[OffsetsCommitted], changes: int) -> None:
        """Replace the table by a checkpoint's rows and count of changes."""
        self._rows = {}
        for row in rows:
            self.replay(row)
        self.changes = changes


_NEVER, _AT_ONCE = float("inf"), float("-inf")


@dataclass(slots=True)
class _Group:
    """`number`: groups count up; `queued`: the time of its place among those that are due."""

    name: str
    number: int
    wishes: dict[tuple[str, int], int] = field(default_factory=dict)
    in_flight: dict[tuple[str, int], int] = field(default_factory=dict)
    waiters: list[Any] = field(default_factory=list)
    in_flight_waiters: list[Any] = field(default_factory=list)
    taken_at: float = _AT_ONCE
    urgent: bool = False
    queued: float = _NEVER

    @property
    def waits(self) -> bool:
        """Has it wishes for a next record, and none on its way?"""
        return bool(self.wishes) and not self.in_flight


class OffsetCommits:
    """Leader only: wishes not yet in the log. `now` is any monotonic clock, in seconds.

    At most one record per group is in flight; a group's next record waits for `settled`.
    """

    def __init__(self, applied: OffsetTable, *, record_size_max: int = 1 << 22) -> None:
        self._applied = applied
        self._rows_max = max((record_size_max - HEAD_SIZE_MAX) // ROW_SIZE_MAX, 1)
        self._groups: dict[str, _Group] = {}
        #: (time, number of the place, group), the earliest first. Places that hold no more, as of
        #: a group that has an earlier one or no wishes left, go when they come first.
        self._queue: list[tuple[float, int, _Group]] = []
        self._numbers = itertools.count()
        self.waiters = 0

    def commit(self, group: str, topic: str, queue: int, offset: int, waiter: Any = None) -> bool:
        """Remember an offset to log. False: the table has it already (waiter not kept)."""
        state = self._groups.get(group)
        if state is None:
            if self._applied.get(group, topic, queue) == offset:
                return False
            state = self._groups[group] = _Group(group, next(self._numbers))
        key = (topic, queue)
        settled = state.in_flight.get(key, self._applied.get(group, topic, queue))
        if settled == offset and not state.waiters:
            state.wishes.pop(key, None)  # back to what is logged, and nobody waits for a record
            if key not in state.in_flight:
                return False
            if waiter is not None:
                self._wait(state.in_flight_waiters, waiter)
            return True
        state.wishes[key] = offset
        if waiter is not None:
            self._wait(state.waiters, waiter)
        if state.queued == _NEVER:
            self._enqueue(state)
        return True

    def newest(self, group: str, topic: str, queue: int) -> int | None:
        """The newest of the wished, in-flight and applied offsets; None: never committed."""
        state = self._groups.get(group)
        applied = self._applied.get(group, topic, queue)
        if state is None:
            return applied
        key = (topic, queue)
        return state.wishes.get(key, state.in_flight.get(key, applied))

    def is_outstanding(self, group: str) -> bool:
        """Has the group something which the log may not have?"""
        state = self._groups.get(group)
        return state is not None and bool(state.wishes or state.in_flight)

    def flush(self, group: str, waiter: Any = None) -> bool:
        """Log the group's offsets at once. False: none is outstanding."""
        state = self._groups.get(group)
        if state is None or not (state.wishes or state.in_flight):
            return False
        if state.wishes:
            state.urgent = True
            self._wait(state.waiters, waiter)
            self._enqueue(state)
        else:
            self._wait(state.in_flight_waiters, waiter)
        return True

    def outstanding(self) -> list[str]:
        """Groups that have something which the log may not have."""
        return [name for name, state in self._groups.items() if state.wishes or state.in_flight]

    def take_due(self, now: float) -> list[OffsetsCommitted]:
        """Records to log now, at most one per group; each must be `settled` later."""
        due: list[_Group] = []
        while (state := self._first()) is not None and state.queued <= now:
            heapq.heappop(self._queue)
            state.queued = _NEVER
            due.append(state)
        due.sort(key=lambda state: state.number)
        return [self._take(state, now) for state in due]

    def settled(self, group: str, *, ok: bool) -> list[Any]:
        """The record in flight was applied (or was not logged); returns its waiters.

        On failure the wishes are dropped: consumers commit again, and the waiters are told.
        """
        state = self._groups[group]
        waiters, state.in_flight_waiters = state.in_flight_waiters, []
        state.in_flight.clear()
        if not ok:
            waiters += state.waiters
            state.waiters, state.wishes, state.urgent = [], {}, False
        self.waiters -= len(waiters)
        self._enqueue(state)
        if not state.wishes and len(self._groups) > GROUPS_MAX:
            del self._groups[group]
        return waiters

    def refused(self, group: str) -> None:
        """The record in flight was certainly not logged, and the leadership may go on.

        Its wishes are for the next record, which is due a second after this one was taken. Newer
        wishes of the same queues count. All who wait go on waiting.
        """
        state = self._groups[group]
        state.wishes = state.in_flight | state.wishes
        state.waiters = state.in_flight_waiters + state.waiters
        state.in_flight, state.in_flight_waiters, state.urgent = {}, [], False
        self._enqueue(state)

    def deadline(self) -> float | None:
        """When `take_due` should be called next; None while no offset waits."""
        state = self._first()
        return None if state is None else state.queued

    def _first(self) -> _Group | None:
        """The group that is due first; None while none has a wish for a next record."""
        queue = self._queue
        while queue:
            at, _, state = queue[0]
            if at == state.queued:
                if state.waits:
                    return state
                state.queued = _NEVER
            heapq.heappop(queue)
        return None

    def _enqueue(self, state: _Group) -> None:
        """Give a group that waits its place, unless it has that or an earlier one."""
        due = _AT_ONCE if state.urgent else state.taken_at + RECORD_INTERVAL_SECONDS
        if state.waits and due < state.queued:
            state.queued = due
            heapq.heappush(self._queue, (due, next(self._numbers), state))

    def drop(self) -> list[Any]:
        """Leadership ended: forget every wish; returns all waiters (outcome unknown)."""
        waiters = [
            waiter
            for state in self._groups.values()
            for waiter in (*state.in_flight_waiters, *state.waiters)
        ]
        self._groups.clear()
        self._queue.clear()
        self.waiters = 0
        return waiters

    def _take(self, state: _Group, now: float) -> OffsetsCommitted:
        state.taken_at = now
        if len(state.wishes) > self._rows_max:
            # All who wait are told behind the last record, and a flush stays one until then.
            first = dict(itertools.islice(state.wishes.items(), self._rows_max))
            state.in_flight = first
            for key in first:
                del state.wishes[key]
        else:
            state.in_flight, state.wishes = state.wishes, {}
            state.in_flight_waiters, state.waiters = state.waiters, []
            state.urgent = False
        offsets: dict[str, dict[int, int]] = {}
        for (topic, queue), offset in state.in_flight.items():
            offsets.setdefault(topic, {})[queue] = offset
        return OffsetsCommitted(state.name, offsets)

    def _wait(self, waiters: list[Any], waiter: Any) -> None:
        if waiter is not None:
            waiters.append(waiter)
            self.waiters += 1


def offset_rows(
    rows: Iterable[tuple[str, Mapping[str, Mapping[str, int]]]],
) -> list[OffsetsCommitted]:
    """[group, topic → queue → next offset] of a checkpoint, as commits."""
    return [
        OffsetsCommitted(
            group,
            {
                topic: {int(queue): int(offset) for queue, offset in queues.items()}
                for topic, queues in topics.items()
            },
        )
        for group, topics in rows
    ]
