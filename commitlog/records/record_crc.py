"""The optional checksum of a whole message record (`enabledAppendPropCRC`, docs/spec/store.md 1.4).

    … properties 02 | __CRC32# 01 dddddddddd 02        the last 20 bytes of the record

Ten decimal digits, the least significant first, padded with 0: CRC-32 with the top bit cleared of
every byte of the record before those 20, taken after offsets and times are patched.
"""

from __future__ import annotations

from typing import Final

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records import property_names as names
from commitlog.records.checksum import crc32
from commitlog.records.properties import NAME_END, PAIR_END

_NAME: Final = names.RECORD_CRC.encode() + NAME_END
RECORD_CRC_SIZE: Final = 20

assert len(_NAME) + 10 + len(PAIR_END) == RECORD_CRC_SIZE


def reserve_record_crc(block: bytes) -> bytes:
    """The property block with space for the checksum at its end; `block` holds none."""
    if block and not block.endswith(PAIR_END):
        block += PAIR_END
    return block + bytes(RECORD_CRC_SIZE)


def seal_record(record: bytearray | memoryview) -> None:
    """Write the checksum into the reserved last 20 bytes; every other byte is final by now."""
    record[-RECORD_CRC_SIZE:] = _tail(memoryview(record)[:-RECORD_CRC_SIZE])


def verify_record_crc(data: Buffer, offset: int, end: int) -> None:
    """Check the record at `offset`..`end`. Raises StoreDamaged."""
    view = memoryview(data)
    found = bytes(view[end - RECORD_CRC_SIZE : end])
    expected = _tail(view[offset : end - RECORD_CRC_SIZE])
    if found != expected:
        raise StoreDamaged(
            f"the record's checksum property is {found!r}, its bytes give {expected!r}",
            position=offset,
        )


def _tail(covered: memoryview) -> bytes:
    digits = f"{crc32(covered) & 0x7FFFFFFF:010d}"[::-1]
    return b"".join((_NAME, digits.encode("ascii"), PAIR_END))
