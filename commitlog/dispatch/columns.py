"""A stretch of the replicated log's bytes, read once for all its derived files and tables.

    bytes of whole entries ─► stretches, in log order, without a gap:
                                  usual messages: with columns (accel_columns.py reads them)
                                  anything else:  without; its user reads it entry by entry

*Usual*: V1, IPv4 hosts, no transaction, no outcome of a deferred message, no batch, every part adds
up, at its own position, no topic that a reader treats specially. Columns are only ever a quicker
way to the same result; without numpy there is one stretch without columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class QueueRows(NamedTuple):
    """The rows of one queue in a stretch, in log order.

    `entries_at`: where their queue entries begin in `Columns.entries`. `is_dense`: offsets count up
    by one. Positions are those of the message records.
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

    `first_row`, `last_row` count entries from the stretch's first; `store_ms` is the last one's.
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
        last_ms: its store timestamp.
        queues: one per queue, and `entries`: their queue entries, 20 bytes each, queue by queue.
        numbers: of messages with a producer's number; grouped, not in log order.
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
