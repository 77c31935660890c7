"""Many records at once, with numpy, and one by one: the same bytes, the same verdict (S10)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from commitlog.records import accel
from dledger.core.types import EntryId, Index, Term
from dledger.log import encode
from dledger.log.check import Checked, Tail, check_records
from dledger.log.encode import Batch, encode_batch

FILE_SIZE = 1 << 20
START = Tail(EntryId(Term(3), Index(41)), 0x12345678, 4096)
STAMP_AT = 28
Result = TypeVar("Result")


@pytest.fixture(autouse=True)
def unload_afterwards() -> Iterator[None]:
    was_loaded = accel.is_loaded()
    yield
    if not was_loaded:
        accel.unload()


def both(made: Callable[[], Result]) -> tuple[Result, Result]:
    """What it gives with numpy and without."""
    if not accel.load():
        pytest.skip("needs numpy")
    fast = made()
    accel.unload()
    return fast, made()


def bodies(seed: int, number: int = 60) -> list[bytes]:
    """As broker records: runs of equal sizes, now and then another one, none below 91 bytes."""
    chance = random.Random(seed)
    sizes = [chance.choice((400, 400, 400, 401, 91 + chance.randrange(900))) for _ in range(4)]
    return [chance.randbytes(chance.choice(sizes)) for _ in range(number)]


def batch(seed: int, start: Tail = START, number: int = 60) -> Batch:
    return encode_batch(
        bodies(seed, number), Term(3), start, file_size=FILE_SIZE, stamp_at=STAMP_AT
    )


def check(data: bytes, start: Tail = START, file_size: int = FILE_SIZE) -> Checked:
    return check_records(memoryview(data), start, file_size, 0)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_records_are_made(seed: int) -> None:
    fast, plain = both(lambda: batch(seed))
    assert fast == plain


def test_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.load()
    monkeypatch.setattr(encode, "_stamp", None)  # not used
    assert len(batch(1).positions) == 60


@pytest.mark.parametrize("seed", range(8))
def test_right_records_are_accepted(seed: int) -> None:
    made = batch(seed)
    fast, plain = both(lambda: check(made.data))
    assert fast == plain
    assert fast.reason == ""
    assert fast.tail == made.tail
    assert b"".join(fast.slots) == made.slots


@pytest.mark.parametrize("seed", range(300))
def test_one_wrong_byte_or_a_cut_gives_the_same_verdict(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(batch(seed % 7).data)
    if seed % 4 == 0:
        del data[chance.randrange(len(data)) :]
    else:
        # Half of them in a header: a record begins at most 1,100 bytes further on.
        at = data.find(b"\0\0\0\1\0\0", chance.randrange(len(data) - 1200))
        at += chance.randrange(48) if seed % 2 else chance.randrange(len(data) - at)
        data[at] ^= 1 << chance.randrange(8)
    fast, plain = both(lambda: check(bytes(data)))
    assert fast == plain
    assert fast.reason


@pytest.mark.parametrize("wrong", ["index", "position", "term", "chain"])
def test_records_that_do_not_continue_the_log_are_refused(wrong: str) -> None:
    start = {
        "index": START._replace(id=EntryId(Term(3), Index(42))),
        "position": START._replace(end=4097),
        "term": START._replace(id=EntryId(Term(4), Index(41))),
        "chain": START._replace(chain_crc=1),
    }[wrong]
    data = batch(5).data
    fast, plain = both(lambda: check(data, start))
    assert fast == plain
    assert fast.reason
    assert not fast.slots


def test_records_of_two_terms_are_accepted() -> None:
    first = batch(1)
    second = encode_batch(bodies(2), Term(5), first.tail, file_size=FILE_SIZE, stamp_at=STAMP_AT)
    fast, plain = both(lambda: check(first.data + second.data))
    assert fast == plain
    assert [run.term for run in fast.runs] == [3, 5]
    assert fast.tail == second.tail


def test_a_record_across_the_end_of_its_file_is_refused() -> None:
    """Right checksums in a place where the rule of docs/spec/raft_log.md 1.4 puts a blank."""
    data = batch(3).data
    size = 4096 + len(data) - 4  # the last record would leave no room for a blank
    fast, plain = both(lambda: check(data, file_size=size))
    assert fast == plain
    assert len(fast.slots) == 59
    assert "where" in fast.reason
