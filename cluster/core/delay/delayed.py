"""Delayed messages that are not delivered yet: by delay level, and timers.

Source: docs/spec/store.md 7.1, 7.2.

    replay_deferred(record)  ─► waits: address → (level, due, queue offset)  level 0: timers
    replay_settled(p)        ─► waits no longer
    take_due(now)            ─► addresses whose time has come; they wait until an outcome is applied

What waits is a function of the log; it is a set, not a maximum: timers come due in any order. The
order of deliveries within a level (a heap each) is the leader's, and is kept on every replica so
that a leadership begins without a pass over all.

Clock protection: a due time further away than now + the level's delay means that the clock went
back, or that an earlier leader's clock was ahead; such a message is due now. The clocks of a group
may differ by CLOCK_SKEW_MS_MAX without that meaning anything.
"""

from __future__ import annotations

import base64
import heapq
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from cluster.core.delay.due import (
    NO_TIMER,
    TIMER_DELAY_MS_MAX,
    Delay,
    DelayNotReadable,
    level_due_ms,
    timer_due_ms,
    wheel_time_ms,
)
from commitlog.delay_levels import DelayLevels
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.names import SCHEDULE_TOPIC, TIMER_TOPIC
from commitlog.records.properties import find_property
from commitlog.records.property_names import TIMER_DELETE_UNIQUE_KEY

#: A message takes some 300 bytes here on every replica; more are refused until some are delivered.
WAITING_MAX: Final = 500_000
CLOCK_SKEW_MS_MAX: Final = 10_000
TIMER_LEVEL: Final = 0
NEVER_MS: Final = (1 << 63) - 1

_SCHEDULE, _TIMER = SCHEDULE_TOPIC.encode(), TIMER_TOPIC.encode()
_CANCELS = TIMER_DELETE_UNIQUE_KEY.encode()
# One message in a checkpoint: address, level, due time, queue offset
_ROW = struct.Struct("<4q")


class Waiting(NamedTuple):
    """One message that waits. Times in ms; `offset` in its deferred queue."""

    level: int
    due_ms: int
    offset: int


class DelayedTable:
    """The delayed messages that wait; see the module's text. `topics`: as in `DeferredFold`."""

    topics = frozenset({_SCHEDULE, _TIMER})

    def __init__(self, levels: DelayLevels) -> None:
        self.levels = levels
        self.changes = 0
        self._waiting: dict[int, bytes] = {}  # address → its row, so that a checkpoint is a join
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in range(levels.level_max + 1)]

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, position: int) -> bool:
        return position in self._waiting

    @property
    def is_full(self) -> bool:
        """True if as many messages wait as may (WAITING_MAX)."""
        return len(self._waiting) >= WAITING_MAX

    # -- the fold ----------------------------------------------------------------------------------

    def replay_deferred(self, record: ScannedRecord, origin: int) -> None:
        """A record that is to be delivered later waits from now on; others are ignored."""
        delay = self._delay(record)
        if delay is not None:
            due_ms = max(-NEVER_MS, min(delay.due_ms, NEVER_MS))  # a row has 64 bits for it
            waiting = Waiting(delay.level, due_ms, record.queue_offset)
            self._add(record.physical_offset, waiting)

    def replay_settled(self, origin: int, record: ScannedRecord) -> None:
        """End the wait of the message at `origin`, if it still waits: the first outcome counts."""
        if self._waiting.pop(origin, None) is not None:
            self.changes += 1

    def replay_passed(self, offsets: Mapping[int, int], timers_ms: int) -> None:
        """An imported store has delivered these (`DelaysPassed`)."""
        gone = [
            position
            for position, level, due_ms, offset in self._rows()
            if (
                wheel_time_ms(due_ms) < timers_ms
                if level == TIMER_LEVEL
                else offset < offsets.get(level, 0)
            )
        ]
        for position in gone:
            del self._waiting[position]
        self.changes += len(gone)

    def _delay(self, record: ScannedRecord) -> Delay | None:
        if record.topic == _SCHEDULE:
            return level_due_ms(record.properties, self.levels, record.store_timestamp_ms)
        if find_property(record.properties, _CANCELS) is not None:
            return None  # RocketMQ's own way to take a timer back; nothing to deliver
        try:
            due_ms = timer_due_ms(record.properties, record.store_timestamp_ms)
        except DelayNotReadable:
            due_ms = NO_TIMER
        return Delay(TIMER_LEVEL, due_ms or record.store_timestamp_ms)

    def _add(self, position: int, waiting: Waiting) -> None:
        self._waiting[position] = _ROW.pack(position, *waiting)
        heapq.heappush(self._heaps[waiting.level], (waiting.due_ms, position))
        self.changes += 1

    # -- the leader --------------------------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int | None:
        """Time of the next due delivery, `now_ms` at the earliest; None when no message waits."""
        heads = [self._head_due_ms(level, now_ms) for level in range(len(self._heaps))]
        return min((head for head in heads if head is not None), default=None)

    def take_due(self, now_ms: int, count_max: int) -> list[int]:
        """Addresses of at most `count_max` messages that are due, level by level, oldest first.

        None of them is given again before `put_back`.
        """
        found: list[int] = []
        for level, heap in enumerate(self._heaps):
            while len(found) < count_max:
                due_ms = self._head_due_ms(level, now_ms)
                if due_ms is None or due_ms > now_ms:
                    break
                found.append(heapq.heappop(heap)[1])
        return found

    def put_back(self, positions: Iterable[int]) -> None:
        """Let messages be taken again that were taken, not delivered, and still wait."""
        for position in positions:
            row = self._waiting.get(position)
            if row is not None:
                _, level, due_ms, _ = _ROW.unpack(row)
                heapq.heappush(self._heaps[level], (due_ms, position))

    def _head_due_ms(self, level: int, now_ms: int) -> int | None:
        heap = self._heaps[level]
        while heap and heap[0][1] not in self._waiting:
            heapq.heappop(heap)
        if not heap:
            return None
        due_ms = max(heap[0][0], now_ms)
        delay_ms = TIMER_DELAY_MS_MAX if level == TIMER_LEVEL else self.levels.delay_ms(level)
        return now_ms if due_ms > now_ms + delay_ms + CLOCK_SKEW_MS_MAX else due_ms

    def _rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Address, level, due time and queue offset of all, in log order."""
        return _ROW.iter_unpack(b"".join(self._waiting.values()))

    # -- looks, exports and checkpoints ------------------------------------------------------------

    def waiting_from(self, begin: int) -> Iterator[tuple[int, Waiting]]:
        """Address and row of each message that waits at `begin` or behind it, in log order."""
        for position, row in self._waiting.items():
            if position >= begin:
                yield position, Waiting(*_ROW.unpack(row)[1:])

    def first_offsets(self) -> dict[int, int]:
        """Level → queue offset of its oldest message that waits; others are left out."""
        found: dict[int, int] = {}
        for _, level, _, offset in self._rows():  # in log order
            found.setdefault(level, offset)
        return found

    def first_wheel_ms(self) -> int:
        """RocketMQ's time of the timer that is due next; far away when no timer waits."""
        dues = (due_ms for _, level, due_ms, _ in self._rows() if level == TIMER_LEVEL)
        return wheel_time_ms(min(dues, default=NEVER_MS))

    def first_waiting(self) -> int | None:
        """Lowest address of a record that still waits, or None."""
        return min(self._waiting, default=None)

    def to_checkpoint(self) -> str:
        """Rows of four int64, little-endian, in base64."""
        return base64.b64encode(b"".join(self._waiting.values())).decode()

    def restore(self, value: Any) -> None:
        """Raises ValueError or TypeError."""
        data = base64.b64decode(value, validate=True)
        if len(data) % _ROW.size:
            raise ValueError(f"{len(data)} bytes are no rows of {_ROW.size}")
        for position, level, due_ms, offset in _ROW.iter_unpack(data):
            if not 0 <= level < len(self._heaps):
                raise ValueError(f"there is no delay level {level}")
            self._add(position, Waiting(level, due_ms, offset))
