"""Producers' numbers in committed messages, gathered over a batch of entries (R8).

    __PID ⟨producer⟩ 02 __SEQ ⟨number⟩ 02      in a message's properties, usually next to each other

Numbers that count up by one are told to the table once per batch and stream, in the order of their
last entries; the table is then the same as if it had been told of each entry.
"""

from __future__ import annotations

from typing import Final

from dledger.core.types import Index
from dledger.producers import ProducerTable

SEQUENCE_DIGITS_MAX = 18  # fits an int64
BATCH_MS_MAX = 24 * 3600 * 1000  # of log time that one batch spans

_SEQUENCE: Final = b"__SEQ\x01"
_HEAD_SIZE: Final = 6  # of both names with their separators


def stream_of(topic: str, queue: int) -> str:
    """What a producer's numbers count in: one queue of one topic."""
    return f"{topic}/{queue}"


class _Run:
    """Numbers `first`..`last` of one producer and queue, at indexes from `first_index` on."""

    __slots__ = ("first", "first_index", "last", "last_index", "producer", "store_ms", "stream")

    def __init__(self, producer: str, stream: str, number: int, index: int, store_ms: int) -> None:
        self.producer, self.stream = producer, stream
        self.first = self.last = number
        self.first_index = self.last_index = index
        self.store_ms = store_ms


class NumbersSeen:
    """One batch of at most `entries_max` entries behind log time `store_ms`.

    When somebody may be forgotten on the way each entry is told of by itself, so that who goes
    does not depend on how entries are batched.
    """

    def __init__(self, table: ProducerTable, entries_max: int, store_ms: int) -> None:
        self._table = table
        self._one_by_one = not table.has_room(entries_max, entries_max, store_ms + BATCH_MS_MAX)
        self._runs: dict[tuple[bytes, bytes, int], _Run] = {}
        self._done: list[_Run] = []

    def add(
        self,
        data: bytes,
        at: int,
        end: int,
        topic: bytes,
        queue: int,
        index: int,
        store_ms: int,
    ) -> None:
        """A message whose properties have `__PID` at `at` and end at `end`.

        Values that cannot be numbers of ours are passed over, on every replica alike.
        """
        stop = data.find(b"\x02", at, end)
        if stop < 0:
            return
        number_at = stop + 1 + _HEAD_SIZE
        if data[stop + 1 : number_at] != _SEQUENCE:
            number_at = data.find(_SEQUENCE, stop, end) + _HEAD_SIZE
            if number_at < _HEAD_SIZE:
                return
        number_end = data.find(b"\x02", number_at, end)
        digits = data[number_at : number_end if number_end >= 0 else end]
        if not digits.isdigit() or len(digits) > SEQUENCE_DIGITS_MAX:
            return
        number = int(digits)
        key = (data[at + _HEAD_SIZE : stop], topic, queue)
        run = self._runs.get(key)
        if run is not None and number == run.last + 1 and not self._one_by_one:
            run.last, run.last_index, run.store_ms = number, index, store_ms
            return
        if run is not None:
            self._done.append(run)
        elif not key[0].isascii():
            return
        self._runs[key] = _Run(
            key[0].decode(), stream_of(topic.decode(), queue), number, index, store_ms
        )
        if self._one_by_one:
            self.tell()
            self._done.clear()
            self._runs.clear()

    def tell(self) -> None:
        """Fold what was gathered into the table."""
        runs = [*self._done, *self._runs.values()]
        for run in sorted(runs, key=lambda run: run.last_index):
            self._table.committed(
                run.producer,
                run.stream,
                run.first,
                Index(run.first_index),
                run.store_ms,
                run.last - run.first + 1,
                Index(run.last_index),
            )
