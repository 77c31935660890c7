"""Half messages without an outcome yet: a fold over committed records (R17).

Source: docs/spec/store.md 7.3.

    record of the half topic                    ─► waits: address → Half
    record that names its address as origin     ─► waits no longer   real topic: committed
                                                                     op topic: rolled back
                                                                     TRANS_CHECK_MAX…: given up
    op record without origin: queue offsets     ─► those wait no longer (written by RocketMQ; ours
                                                   follow the outcome and find nothing)
    HalvesChecked                               ─► how often, and when last, somebody was asked
    offset of CID_RMQ_SYS_TRANS in the half     ─► those before it wait no longer: a store of
    queue                                          RocketMQ was taken over

The first outcome in log order finds the half waiting, a second one finds nothing. A half has one
address for life: checks are counted in records of their own, so that nothing is put back under
another address that could be committed as well.

A half that was given up may be resumed (323): a new half whose origin is the discarded copy. What
was settled last is remembered for as long as clients may ask again (`recent`).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cluster.core.transactions.rules import CheckRule, Half, immunity_ms
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC

#: The group whose offsets say how far RocketMQ's check service is.
CHECK_GROUP: Final = "CID_RMQ_SYS_TRANS"
#: A half takes some 400 bytes here on every replica; more are refused until some have an outcome.
WAITING_MAX: Final = 100_000
#: Outcomes that are remembered; clients ask again within seconds.
RECENT_MAX: Final = 2_000
#: Clocks of a group differ by less; a due time further away means that a clock went back.
CLOCK_SKEW_MS_MAX: Final = 10_000

_HALF, _OP = HALF_TOPIC.encode(), OP_HALF_TOPIC.encode()
_GIVEN_UP = CHECK_MAX_TIME_TOPIC.encode()


class Outcome(enum.IntEnum):
    """The outcome of a half; RESUMED: of a discarded copy."""

    COMMITTED = 1
    ROLLED_BACK = 2
    GIVEN_UP = 3
    RESUMED = 4


class HalfTable:
    """See the module's text. `topics` as in every `DeferredFold`."""

    topics = frozenset({_HALF, _OP})

    def __init__(self, rule: CheckRule) -> None:
        self.rule = rule
        self._waiting: dict[int, Half] = {}
        self._by_offset: dict[int, int] = {}
        self._recent: dict[int, Outcome] = {}
        self._heap: list[tuple[int, int]] = []  # due time, address; stale ones are passed over
        self._half_end = self._op_end = 0  # next offsets of both queues
        self.changes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """True if as many halves wait as may (WAITING_MAX)."""
        return len(self._waiting) >= WAITING_MAX

    def get(self, position: int) -> Half | None:
        """The half at that address, None when it does not wait."""
        return self._waiting.get(position)

    def waiting_from(self, begin: int) -> Iterator[tuple[int, Half]]:
        """Address and half of each that waits at `begin` or behind it, in log order."""
        return ((at, half) for at, half in self._waiting.items() if at >= begin)

    def recent(self, position: int) -> Outcome | None:
        """The outcome of a half that was settled not long ago, else None."""
        return self._recent.get(position)

    # -- the fold ----------------------------------------------------------------------------------

    def replay_deferred(self, record: ScannedRecord, origin: int) -> None:
        """A half waits from now on; a record of the op topic only moves that queue's end."""
        self.changes += 1
        if record.topic == _OP:
            self._op_end = record.queue_offset + 1
            return
        self._half_end = record.queue_offset + 1
        half = Half(
            record.queue_offset,
            record.store_timestamp_ms,
            immunity_ms(record.properties),
            ops=self._op_end,
        )
        self._put(record.physical_offset, half)

    def replay_settled(self, origin: int, record: ScannedRecord) -> None:
        """End the wait of the half at `origin`, if it still waits: the first outcome counts.

        A record that is itself a half was put back in its place; that is only remembered.
        """
        if record.topic == _HALF:
            self._remember(origin, Outcome.RESUMED)
        elif origin in self._waiting:
            kind = {_OP: Outcome.ROLLED_BACK, _GIVEN_UP: Outcome.GIVEN_UP}
            self._settle(origin, kind.get(record.topic, Outcome.COMMITTED))

    def replay_ops(self, body: bytes) -> None:
        """An op record's body: queue offsets, each with a comma behind it.

        Source: docs/spec/store.md 7.3.
        """
        for text in body.split(b","):
            if text.isdigit():
                position = self._by_offset.get(int(text[:19]))
                if position is not None:
                    self._settle(position, Outcome.ROLLED_BACK)

    def replay_settled_before(self, offset: int) -> None:
        """RocketMQ is done with the halves before this queue offset: given up, or put back."""
        for position, half in list(self._waiting.items()):
            if half.offset < offset:
                self._settle(position, Outcome.GIVEN_UP)

    def replay_checked(self, checks: Mapping[int, int], store_ms: int) -> None:
        """A producer is asked for the n-th time; 0: a half was resumed, its checks begin again."""
        for position, count in checks.items():
            half = self._waiting.get(position)
            if half is not None:
                self._put(position, half._replace(checks=count, asked_ms=store_ms))

    def _put(self, position: int, half: Half) -> None:
        self._waiting[position] = half
        self._by_offset[half.offset] = position
        heapq.heappush(self._heap, (self.rule.due_ms(half), position))

    def _settle(self, position: int, outcome: Outcome) -> None:
        half = self._waiting.pop(position)
        self.changes += 1
        if self._by_offset.get(half.offset) == position:
            del self._by_offset[half.offset]
        self._remember(position, outcome)
        if len(self._heap) > 2 * len(self._waiting) + RECENT_MAX:  # mostly stale
            self._heap = [(self.rule.due_ms(h), p) for p, h in self._waiting.items()]
            heapq.heapify(self._heap)

    def _remember(self, position: int, outcome: Outcome) -> None:
        self._recent[position] = outcome
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    # -- the leader --------------------------------------------------------------------------------

    def take_due(self, now_ms: int, count_max: int) -> list[int]:
        """Addresses of at most `count_max` halves that are due for a check, the longest due first.

        None of them is given again before it was `checked` or `put_back`.
        """
        found: list[int] = []
        heap, waiting, rule = self._heap, self._waiting, self.rule
        while heap and len(found) < count_max:
            due_ms, position = heap[0]
            half = waiting.get(position)
            if half is not None and rule.due_ms(half) == due_ms:
                longest_ms = max(rule.quiet_ms(half), rule.interval_ms) + CLOCK_SKEW_MS_MAX
                if now_ms < due_ms <= now_ms + longest_ms:
                    break
                if position not in found:
                    found.append(position)
            heapq.heappop(heap)
        return found

    def put_back(self, positions: Iterable[int]) -> None:
        """Make these halves due again, as far as they still wait: their check was not made."""
        for position in positions:
            half = self._waiting.get(position)
            if half is not None:
                heapq.heappush(self._heap, (self.rule.due_ms(half), position))

    # -- exports and checkpoints -------------------------------------------------------------------

    def system_offsets(self) -> dict[str, int]:
        """Where RocketMQ's own check service would go on, by topic; {} before the first half.

        Halves before the one are settled; no op record before the other is about later ones.
        """
        if not self._half_end:
            return {}
        first = min(self._waiting.values(), default=Half(self._half_end, 0, ops=self._op_end))
        return {HALF_TOPIC: first.offset, OP_HALF_TOPIC: first.ops}

    def first_waiting(self) -> int | None:
        """Lowest address of a half message without an outcome."""
        return min(self._waiting, default=None)

    def to_checkpoint(self) -> dict[str, Any]:
        """JSON, for `restore`."""
        return {
            "waiting": [[position, *half] for position, half in self._waiting.items()],
            "recent": [[position, int(outcome)] for position, outcome in self._recent.items()],
            "ends": [self._half_end, self._op_end],
        }

    def restore(self, value: Any) -> None:
        """Raises ValueError, KeyError or TypeError."""
        for position, *fields in value["waiting"]:
            self._put(int(position), Half(*(int(field) for field in fields)))
        for position, outcome in value["recent"]:
            self._recent[int(position)] = Outcome(outcome)
        self._half_end, self._op_end = (int(end) for end in value["ends"])
