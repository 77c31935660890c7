"""The whole-record checksum in the property block (docs/spec/store.md 1.4)."""

from __future__ import annotations

import pytest

from commitlog.errors import StoreDamaged
from commitlog.records.properties import decode_properties
from commitlog.records.record_crc import (
    RECORD_CRC_SIZE,
    reserve_record_crc,
    seal_record,
    verify_record_crc,
)


def test_room_is_made_behind_the_last_pair() -> None:
    assert reserve_record_crc(b"") == bytes(20)
    assert reserve_record_crc(b"a\x01b") == b"a\x01b\x02" + bytes(20)
    assert reserve_record_crc(b"a\x01b\x02") == b"a\x01b\x02" + bytes(20)


def test_digits_stand_least_significant_first() -> None:
    record = bytearray(b"123456789" + bytes(RECORD_CRC_SIZE))
    seal_record(record)
    assert record[9:] == b"__CRC32#\x01" + b"1274296614"[::-1] + b"\x02"
    assert decode_properties(record[9:]) == {"__CRC32#": "4166924721"}
    verify_record_crc(b"." + record, 1, 30)


def test_small_sums_are_padded() -> None:
    record = bytearray(RECORD_CRC_SIZE)
    seal_record(record)
    assert record == b"__CRC32#\x010000000000\x02"


def test_damage_is_found() -> None:
    record = bytearray(b"123456789" + bytes(RECORD_CRC_SIZE))
    seal_record(record)
    record[3] ^= 4
    with pytest.raises(StoreDamaged, match="checksum"):
        verify_record_crc(record, 0, len(record))
