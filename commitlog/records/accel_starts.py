"""Where the entries of a piece of the replicated log begin; needs numpy.

size of the first ─► hop to the next ─► …       8 equal sizes in a row: as long as that goes on,
                                               all headers a stride apart are compared at once
"""

from __future__ import annotations

import struct
from typing import Any, Final

from commitlog.files.system import Buffer
from commitlog.records.message_layout import RECORD_SIZE_MIN
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY

ENTRY_SIZE_MIN: Final = HEADER_SIZE + RECORD_SIZE_MIN  # of a message's entry

_TWO_INTS = struct.Struct(">ii")
_REPEATS: Final = 8  # so many sizes in a row are equal: try a stride


def entry_starts(numpy: Any, data: Buffer, at: int) -> tuple[Any, int]:
    """Where the whole entries from `at` on begin, and where the last of them ends."""
    end, unpack = len(data), _TWO_INTS.unpack_from
    parts: list[Any] = []
    some: list[int] = []
    last_size = repeats = 0
    while end - at >= ENTRY_SIZE_MIN:
        magic, size = unpack(data, at)
        if magic != MAGIC_ENTRY or not ENTRY_SIZE_MIN <= size <= end - at:
            break
        some.append(at)
        at += size
        repeats = repeats + 1 if size == last_size else 0
        last_size = size
        if repeats == _REPEATS:
            repeats = 0
            count = _equal_steps(numpy, data, at, size)
            parts += [numpy.array(some), numpy.arange(at, at + count * size, size)]
            at += count * size
            some = []
    parts.append(numpy.array(some, numpy.int64))
    return numpy.concatenate(parts), at


def _equal_steps(numpy: Any, data: Buffer, at: int, size: int) -> int:
    """How many entries of exactly `size` bytes stand in a row from `at` on."""
    count = (len(data) - at) // size
    if not count:
        return 0
    heads = numpy.ndarray((count,), ">i8", data, at, (size,))
    differs = heads != (MAGIC_ENTRY << 32 | size)
    first = int(differs.argmax())
    return first if differs[first] else count
