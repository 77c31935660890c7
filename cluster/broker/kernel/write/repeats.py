"""Answers a message that a producer sends again like its original (R8).

Only when the original is committed and applied: a repeat cannot be acknowledged for a message that
may still be lost. Where the original is, is found through the producer table; numbers of several
queues lie mixed in one range of the log, so a range is searched once for all of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from cluster.broker.kernel.write.batch import Batch
from cluster.core.delay.folds import real_place
from cluster.core.numbers import stream_of
from commitlog.files.system import Buffer
from commitlog.records.message_fast import scan_record
from dledger.core.types import NO_INDEX, Index
from dledger.errors import DledgerError
from dledger.log.port import LogStore
from dledger.producers.runs import Run
from dledger.producers.table import ProducerTable


class Numbers(NamedTuple):
    """The producer table's answer about a send: `skip` of its messages are stored already."""

    producer: str
    sequence: int
    skip: int
    wait_for: Index


WAITING_MAX = 100_000  # repeats that wait for their originals; as many as may be in flight
SEARCHES_MAX = 16  # index ranges whose numbers are remembered; a failover repeats a few batches


class Originals:
    """Finds the entry of a number that the log already has, or will have after this turn."""

    def __init__(self, table: ProducerTable, store: LogStore) -> None:
        self._table, self._store = table, store
        self._searched: dict[Run, dict[tuple[bytes, bytes, int, bytes], Index]] = {}

    def find(
        self, producer: str, topic: str, queue: int, sequence: int, batch: Batch | None = None
    ) -> Index:
        """Index of the original, -1 when that is no longer known.

        `batch`: where it may be while it is not in the log yet.
        """
        run = self._table.run_of(producer, stream_of(topic, queue), sequence)
        if run is None or run.last_index < self._store.first_index:
            return NO_INDEX
        if run.is_dense:
            index = Index(run.first_index + sequence - run.first)
            return index if index >= self._store.first_index else NO_INDEX
        found = self._searched.get(run)
        if found is None:
            found = self._search(run, batch)
            if run.last_index <= self._store.last.index:  # later it would find more
                if len(self._searched) >= SEARCHES_MAX:
                    del self._searched[next(iter(self._searched))]
                self._searched[run] = found
        key = (producer.encode(), topic.encode(), queue, b"%d" % sequence)
        return found.get(key, NO_INDEX)

    def record(
        self, producer: str, topic: str, queue: int, sequence: int, batch: Batch
    ) -> Buffer | None:
        """The original as it is, or will be, in the log; None when that is no longer known."""
        index = self.find(producer, topic, queue, sequence, batch)
        if index == NO_INDEX:
            return None
        if index > self._store.last.index:
            return batch.bodies[index - batch.first_index]
        return self._store.entry(index).body

    def drop(self) -> None:
        """Leadership ended: of ranges that were searched, the uncommitted end may be others'."""
        self._searched.clear()

    def _search(
        self, run: Run, batch: Batch | None
    ) -> dict[tuple[bytes, bytes, int, bytes], Index]:
        """Every number that stands in the run's range of indexes."""
        store = self._store
        first, last = max(run.first_index, store.first_index), min(run.last_index, store.last.index)
        entries = store.entries(Index(first), Index(last)) if first <= last else ()
        bodies: list[tuple[int, Buffer]] = [(it.header.sequence, it.body) for it in entries]
        if batch is not None and run.last_index > last:
            bodies += enumerate(batch.bodies, batch.first_index)
        found = {}
        for index, body in bodies:
            record = scan_record(body)
            if record.producer_id is not None and record.producer_sequence is not None:
                topic, queue = real_place(record)
                key = (record.producer_id, topic, queue, record.producer_sequence)
                found[key] = Index(index)
        return found


Answer = Callable[[DledgerError | None], None]


def as_it_is(answer: Answer) -> Answer:
    """The answer itself, not bound to a request (`Owned.bound`)."""
    return answer


class RepeatsWaiting:
    """Answers held back until an index is applied."""

    def __init__(self, bound: Callable[[Answer], Answer] = as_it_is) -> None:
        self._bound = bound
        self._heap: list[tuple[int, int, Answer]] = []
        self._number = 0

    @property
    def full(self) -> bool:
        """True if as many answers wait as may (WAITING_MAX)."""
        return len(self._heap) >= WAITING_MAX

    def wait(self, index: Index, answer: Answer) -> None:
        """Call `answer(None)` when `index` is applied."""
        self._number += 1
        heapq.heappush(self._heap, (index, self._number, self._bound(answer)))

    def applied(self, index: Index) -> None:
        """Give the answers that waited for `index` or a lower one."""
        heap = self._heap
        while heap and heap[0][0] <= index:
            heapq.heappop(heap)[2](None)

    def drop(self, error: DledgerError) -> None:
        """Leadership ended: the originals' outcome is unknown here."""
        waiting, self._heap = self._heap, []
        for _, _, answer in sorted(waiting, key=lambda item: item[:2]):
            answer(error)
