"""Where a message's properties have a producer's id and number (`__PID`, `__SEQ`).

__PID ⟨producer⟩ 02 __SEQ ⟨number⟩ 02      usually next to each other, maybe with others between
"""

from __future__ import annotations

from typing import Final

from commitlog.files.system import Buffer

SEQUENCE_DIGITS_MAX: Final = 18  # fits an int64

PRODUCER: Final = b"__PID\x01"
SEQUENCE: Final = b"__SEQ\x01"
NAME_SIZE: Final = 6  # of both names with their separators

BATCH_PRODUCER: Final = "batch/"
"""How ids of producers begin that number by batches: batch · BATCH_ROWS_MAX + row, in each queue.

Such a producer repeats a whole batch from row 0 until all of it is stored, and only then begins a
later one, so row 0 of a later batch follows any number (docs/spec/pipeline.md 4.2).
"""

BATCH_ROWS_MAX: Final = 1 << 28  # of one batch, producer and queue; leaves 2^31 batches

assert len(PRODUCER) == len(SEQUENCE) == NAME_SIZE


def find_numbers(data: bytes, at: int, end: int) -> tuple[int, int, int] | None:
    """`PRODUCER` is at `at`, the properties end at `end`: (end of the id, begin and end of digits).

    The id begins at `at` + NAME_SIZE. None when there is no number that could be one of ours.
    """
    stop = data.find(b"\x02", at, end)
    if stop < 0:
        return None
    number_at = stop + 1 + NAME_SIZE
    if data[stop + 1 : number_at] != SEQUENCE:
        number_at = data.find(SEQUENCE, stop, end) + NAME_SIZE
        if number_at < NAME_SIZE:
            return None
    number_end = data.find(b"\x02", number_at, end)
    if number_end < 0:
        number_end = end
    if not is_number(data[number_at:number_end]):
        return None
    return stop, number_at, number_end


def begins_batch(producer: str, sequence: int) -> bool:
    """May this number follow any lower one of its producer?"""
    return sequence % BATCH_ROWS_MAX == 0 and producer.startswith(BATCH_PRODUCER)


def is_number(digits: Buffer) -> bool:
    """Decimal digits of an int64, at least one."""
    return bytes(digits).isdigit() and len(digits) <= SEQUENCE_DIGITS_MAX
