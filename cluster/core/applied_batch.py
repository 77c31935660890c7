"""Values that `AppliedState.apply` gathers from the entries of one call, and their heads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from cluster.core.delay.folds import DEFERRED_TOPICS
from cluster.core.internal_topics import StateChange
from cluster.core.numbers import NumbersSeen, Run
from cluster.core.pop.names import REVIVE_FIELD
from commitlog.dispatch.columns import Columns, Stretch
from commitlog.records.message_layout import HEAD_SIZE, HEADS, SYS_FLAG_LOW_AT
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import Index
from dledger.producers.table import ProducerTable

# entry: magic, size | message: size, magic, queue id, queue offset, sysFlag, store timestamp,
# preparedTransactionOffset, body size (both hosts IPv4)
ENTRY: Final = struct.Struct(">ii40xii4xi4xq8xi16xq12xqi")
assert ENTRY.size == HEADER_SIZE + HEAD_SIZE


def body_of(data: bytes, message: int) -> bytes:
    """The body as it stands in a record that `scan_record` can read."""
    head = HEADS[data[message + SYS_FLAG_LOW_AT] >> 4 & 3]
    begin = message + head.size
    return data[begin : begin + head.unpack_from(data, message)[-1]]


class Row:
    """One queue in a batch of entries: its end, and the run of numbers that it saw last."""

    __slots__ = ("end", "is_deferred", "run")

    def __init__(self, topic: bytes) -> None:
        self.end = 0
        self.run: Run | None = None
        self.is_deferred = topic in DEFERRED_TOPICS or topic.startswith(REVIVE_FIELD)


class Batch:
    """Values gathered from the entries of one `apply` so far; the next entry has `index`."""

    __slots__ = ("changes", "index", "last_at", "numbers", "rows", "store_ms")

    def __init__(
        self, table: ProducerTable, stretches: Sequence[Stretch], first: Index, store_ms: int
    ) -> None:
        runs_max = sum(
            (end - begin) // ENTRY.size + 1 if columns is None else len(columns.numbers)
            for begin, end, columns in stretches
        )
        self.numbers = NumbersSeen(table, runs_max, store_ms)
        self.rows: dict[tuple[bytes, int], Row] = {}
        self.changes: list[StateChange] = []
        self.index, self.store_ms = int(first), store_ms
        self.last_at = -1

    def tell_numbers(self) -> None:
        """Before a record about producers: that table is ordered by when each was last heard."""
        self.numbers.tell_now()
        for row in self.rows.values():
            row.run = None

    def take_columns(self, columns: Columns) -> None:
        """A stretch of usual messages, of which none is internal."""
        for queue in columns.queues:
            row = self.rows.get((queue.topic, queue.queue_id))
            if row is None:
                row = self.rows[queue.topic, queue.queue_id] = Row(queue.topic)
            row.end, row.run = queue.last_offset + 1, None
        for seen in columns.numbers:
            self.numbers.add_run(seen, Index(self.index))
        self.index += columns.count
        self.store_ms, self.last_at = columns.last_ms, columns.last_begin
