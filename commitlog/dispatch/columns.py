"""Stretches: bytes of the replicated log, parsed once for all files and tables made from them.

    bytes of whole entries ─► stretches, in log order, without a gap:
                                  usual messages: with columns (accel_columns.py reads them)
                                  anything else:  without; the caller reads it entry by entry

A message is *usual* if it is a V1 record with IPv4 hosts, its sizes add up to the record's size, it
holds its own position, and its topic is not one that the caller treats specially; and if it is no
part of a transaction, no outcome of a deferred message and no batch. Columns hold the same facts as
the entries and are faster to read; without numpy all bytes are one stretch without columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class QueueRows(NamedTuple):
    """The rows of one queue in a stretch, in log order.

    The queue entries of these rows begin at byte `entries_at` of `Columns.entries`. `is_dense`:
    each row's queue offset is one more than the one before. Positions are those of the records.
    """

    topic: bytes
    queue_id: int
    entries_at: int
    rows: int
    first_offset: int
    last_offset: int
    is_dense: bool
    first_position: int
    end_position: int


class NumberRun(NamedTuple):
    """Numbers `first`..`last` of one producer and queue, each one more than the one before.

    `first_row` and `last_row` count entries from the first one of the stretch; `store_ms` is the
    store time of the last one.
    """

    producer: bytes
    topic: bytes
    queue_id: int
    first: int
    last: int
    first_row: int
    last_row: int
    store_ms: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Queue entries, producer numbers and index keys of `count` usual messages.

    Attributes:
        last_begin: where in the data the last entry's header begins.
        last_ms: store timestamp of the last entry.
        queues: the rows of each queue.
        entries: queue entries of 20 bytes, first all of the first queue, then of the next.
        numbers: the runs of producer numbers, grouped by producer and queue, not in log order.
        hashes, positions, times_ms: parallel arrays of index keys in log order; times in ms.
    """

    count: int
    last_begin: int
    last_ms: int
    queues: tuple[QueueRows, ...]
    entries: bytes
    numbers: tuple[NumberRun, ...]
    hashes: Any
    positions: Any
    times_ms: Any

    def keys_from(self, position: int) -> tuple[Any, Any, Any]:
        """Index keys of the messages at or above `position`: hashes, positions, times."""
        hashes, positions, times_ms = self.hashes, self.positions, self.times_ms
        if len(positions) and positions[0] < position:
            at = int(positions.searchsorted(position))
            return hashes[at:], positions[at:], times_ms[at:]
        return hashes, positions, times_ms


class Stretch(NamedTuple):
    """Bytes `begin`..`end` of the data that was read."""

    begin: int
    end: int
    columns: Columns | None
