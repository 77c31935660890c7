"""Rules of dispatch for one message, and the error of a failed disk. Pure functions.

Is the record the one that stands here? Which tags code has its queue's entry?
"""

from __future__ import annotations

from typing import Final

from commitlog.delay_levels import DelayLevels
from commitlog.errors import StoreDamaged, StoreFailed
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.places import is_possible
from commitlog.records.properties import find_property

SCHEDULE_TOPIC: Final = b"SCHEDULE_TOPIC_XXXX"
#: Of a number that is only compared: more are no level.
LEVEL_DIGITS_MAX: Final = 9


def check_record_place(record: ScannedRecord, address: int, size: int, *, queue_too: bool) -> None:
    """Raises StoreDamaged for a record that is not the one of `size` bytes at `address`.

    `queue_too`: also for one of a queue or an offset that no broker gives out.
    """
    if record.physical_offset != address or record.size != size:
        raise StoreDamaged(
            f"the record says position {record.physical_offset} and size {record.size}"
        )
    place = record.topic, record.queue_id, record.queue_offset
    if queue_too and not is_possible(*place):
        raise StoreDamaged(
            f"queue {place[1]} of topic {place[0][:64]!r} cannot hold offset {place[2]}"
        )


def queue_code(record: ScannedRecord, delay_levels: DelayLevels) -> int:
    """The tags code of the record's queue entry; for a delayed message its due time, in ms."""
    if record.topic == SCHEDULE_TOPIC:
        level = find_property(record.properties, b"DELAY") or b"0"
        if level.isdigit() and int(level[:LEVEL_DIGITS_MAX]) > 0:
            number = int(level[:LEVEL_DIGITS_MAX])
            return delay_levels.due_ms(record.store_timestamp_ms, number)
    return record.tags_code


def refused(error: OSError) -> StoreFailed:
    """The error of each call after a failed write of derived files."""
    return StoreFailed(
        f"queues and key index could not be written ({error}); free or repair the disk, then open "
        "the store again"
    )
