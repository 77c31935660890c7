"""Producers' numbers in committed messages, gathered over a batch of entries (R8).

    __PID ⟨producer⟩ 02 __SEQ ⟨number⟩ 02      in a message's properties, usually next to each other

Numbers that count up by one are told to the table once per batch and stream, in the order of their
last entries; the table is then the same as if it had been told of each entry.
"""

from __future__ import annotations

from typing import Final

from commitlog.dispatch.columns import NumberRun
from commitlog.records.producer_numbers import NAME_SIZE, PRODUCER, SEQUENCE, find_numbers
from commitlog.records.producer_numbers import SEQUENCE_DIGITS_MAX as SEQUENCE_DIGITS_MAX
from dledger.core.types import Index
from dledger.producers.table import ProducerTable

BATCH_MS_MAX: Final = 24 * 3600 * 1000  # of log time that one batch spans


def stream_of(topic: str, queue: int) -> str:
    """The stream of a producer's numbers: one queue of one topic."""
    return f"{topic}/{queue}"


class Run:
    """Numbers `first`..`last` of one producer and queue, at indexes from `first_index` on.

    `wanted`: how the properties of the next message in this run begin.
    """

    __slots__ = ("_head", "first", "first_index", "last", "last_index", "producer", "store_ms",
                 "stream", "wanted")  # fmt: skip

    def __init__(
        self, producer: bytes, stream: str, number: int, index: int, store_ms: int
    ) -> None:
        self.producer, self.stream = producer.decode(), stream
        self.first = number
        self.first_index = index
        self._head = b"%b%b\x02%b" % (PRODUCER, producer, SEQUENCE)
        self.take(number, index, store_ms)

    def take(self, number: int, index: int, store_ms: int) -> None:
        """The run goes on with `number`, at `index`."""
        self.last, self.last_index, self.store_ms = number, index, store_ms
        self.wanted = b"%b%d\x02" % (self._head, number + 1)


class NumbersSeen:
    """One batch with at most `runs_max` runs of numbers, behind log time `store_ms`.

    When somebody may be forgotten on the way each entry is told of by itself, so that who goes
    does not depend on how entries are batched.
    """

    def __init__(self, table: ProducerTable, runs_max: int, store_ms: int) -> None:
        self._table = table
        self._one_by_one = not table.has_capacity(runs_max, runs_max, store_ms + BATCH_MS_MAX)
        self._runs: dict[tuple[bytes, bytes, int], Run] = {}
        self._done: list[Run] = []

    def add(
        self,
        data: bytes,
        at: int,
        end: int,
        topic: bytes,
        queue: int,
        index: int,
        store_ms: int,
    ) -> Run | None:
        """Add a message with `__PID` at `at` of its properties, which end at `end`; returns its
        run.

        Values that cannot be numbers of ours are passed over, on every replica alike.
        """
        found = find_numbers(data, at, end)
        if found is None:
            return None
        stop, number_at, number_end = found
        number = int(data[number_at:number_end])
        key = (data[at + NAME_SIZE : stop], topic, queue)
        run = self._runs.get(key)
        if run is not None and number == run.last + 1:
            run.take(number, index, store_ms)
            return run
        if run is not None:
            self._done.append(run)
        elif not key[0].isascii():
            return None
        stream = stream_of(topic.decode(), queue)
        run = self._runs[key] = Run(key[0], stream, number, index, store_ms)
        if not self._one_by_one:
            return run
        self.tell_now()
        return None

    @property
    def one_by_one(self) -> bool:
        """Must each entry be told of by itself, in log order?"""
        return self._one_by_one

    def add_run(self, seen: NumberRun, first: Index) -> None:
        """Many messages of one producer and queue; row 0 of their stretch is entry `first`."""
        assert not self._one_by_one, "these are told of together"
        key = (seen.producer, seen.topic, seen.queue_id)
        run = self._runs.get(key)
        if run is None or seen.first != run.last + 1:
            if run is not None:
                self._done.append(run)
            stream = stream_of(seen.topic.decode(), seen.queue_id)
            first_index = first + seen.first_row
            run = Run(seen.producer, stream, seen.first, first_index, seen.store_ms)
            self._runs[key] = run
        run.take(seen.last, first + seen.last_row, seen.store_ms)

    def tell_now(self) -> None:
        """Fold the gathered runs now; runs that were handed out have ended."""
        self.tell()
        self._done.clear()
        self._runs.clear()

    def tell(self) -> None:
        """Fold the gathered runs into the table."""
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
