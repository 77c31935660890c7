"""Records with right checksums in wrong places: a mistake that no checksum shows (S10)."""

from __future__ import annotations

from zlib import crc32

import pytest

from commitlog.records.record import BLANK, HEADER, HEADER_SIZE, chain
from dledger.core.types import NO_ENTRY, EntryId, Index, Term
from dledger.log.check import Checked, Tail, check_records, is_zero

FILE_SIZE = 1024
START = Tail(NO_ENTRY, 0, 0)


def record(
    previous: int,
    *,
    index: int,
    position: int,
    size: int,
    term: int = 1,
    magic: int = 1,
    channel: int = 0,
    body_size: int | None = None,
) -> tuple[bytes, int]:
    """A record of `size` bytes with checksums that fit what it says; and its chain checksum."""
    body = bytes([65 + index]) * (size - HEADER_SIZE)
    head = HEADER.pack(magic, size, index, term, position, channel, 0, 0, 0)[:36]
    chain_crc = chain(previous, head, crc32(body))
    claimed = len(body) if body_size is None else body_size
    header = HEADER.pack(
        magic, size, index, term, position, channel, chain_crc, crc32(body), claimed
    )
    return header + body, chain_crc


def check(*parts: bytes, start: Tail = START) -> Checked:
    return check_records(memoryview(b"".join(parts)), start, FILE_SIZE, 0)


FIRST, FIRST_CRC = record(0, index=0, position=0, size=500)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"channel": 1}, "channel is 1"),
        ({"magic": 2}, "magic 2"),
        ({"index": 2}, "index 2 stands where 1 belongs"),
        ({"position": 508}, "names position 508"),
        ({"term": 0}, "term 0 follows term 1"),
        ({"body_size": 51}, "does not fit a body of 51"),
        ({"size": 524}, "where 524 bytes are left"),
        ({"size": 517}, "where 524 bytes are left"),
    ],
)
def test_a_record_out_of_place_ends_the_check(wrong: dict[str, int], match: str) -> None:
    fields = {"index": 1, "position": 500, "size": 100, **wrong}
    second, _ = record(FIRST_CRC, **fields)
    found = check(FIRST, second)
    assert match in found.reason
    assert not found.cut_short
    assert (len(found.slots), found.tail) == (1, Tail(EntryId(Term(1), Index(0)), FIRST_CRC, 500))


def test_the_largest_record_leaves_eight_bytes() -> None:
    second, crc = record(FIRST_CRC, index=1, position=500, size=516)
    found = check(FIRST, second)
    assert (found.reason, found.tail.end, found.tail.chain_crc) == ("", 1016, crc)


@pytest.mark.parametrize(("size", "accepted"), [(516, False), (517, True), (1016, True)])
def test_a_blank_stands_only_where_the_next_record_had_no_room(size: int, accepted: bool) -> None:
    """Replicas would differ in their bytes otherwise, and in every position after."""
    blank = BLANK.pack(-1, 524).ljust(524, b"\0")
    second, _ = record(FIRST_CRC, index=1, position=1024, size=size)
    found = check(FIRST, blank, second)
    assert (found.reason == "") is accepted
    assert found.tail.end == (1024 + size if accepted else 500)
    alone = check(blank, second, start=Tail(EntryId(Term(1), Index(0)), FIRST_CRC, 500))
    assert (alone.reason == "") is accepted


@pytest.mark.parametrize(
    ("blank", "reason", "cut_short"),
    [
        (BLANK.pack(-1, 523).ljust(524, b"\0"), "claims 523 bytes", False),
        (BLANK.pack(-1, 524).ljust(523, b"\0"), "inside a blank", True),
        (BLANK.pack(-1, 524).ljust(523, b"\0") + b"\1", "not zero", False),
        (BLANK.pack(-1, 524).ljust(524, b"\0"), "ends with a blank", True),
        (BLANK.pack(-1, 524)[:7], "inside a record", True),
        (bytes(524), "there is no record", False),
        (bytes(20), "inside a record", True),
    ],
)
def test_blanks_belong_to_the_entry_behind_them(blank: bytes, reason: str, cut_short: bool) -> None:
    """R10: without that entry the log ends before the blank."""
    found = check(FIRST, blank)
    assert reason in found.reason
    assert found.cut_short is cut_short
    assert found.tail.end == 500


def test_a_cut_at_every_byte_only_says_that_bytes_are_missing() -> None:
    second, crc = record(FIRST_CRC, index=1, position=500, size=100)
    blank = BLANK.pack(-1, 424).ljust(424, b"\0")
    third, _ = record(crc, index=2, position=1024, size=600)
    data = FIRST + second + blank + third
    ends = (0, 500, 600, 1624)
    assert len(data) == ends[-1]
    for size in range(len(data) + 1):
        found = check(data[:size])
        assert found.cut_short is (size not in ends)
        assert found.tail.end == max(end for end in ends if end <= size)


def test_is_zero() -> None:
    for size in (0, 1, 100, 1 << 16, (1 << 16) + 1, 200_000):
        data = bytearray(size)
        assert is_zero(data)
        if size:
            data[-1] = 1
            assert not is_zero(data)
