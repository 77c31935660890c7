"""Timer units and op messages (docs/spec/store.md 7.2, 7.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreDamaged
from commitlog.records import timer_format as timer

from ..strategies import int32, int64, offsets, random_search


@random_search
@given(st.builds(timer.TimerUnit, int64, int32, int64, int32, int64, int32, int32, int64))
def test_unit_round_trip(unit: timer.TimerUnit) -> None:
    assert timer.unpack_timer_unit(b"." + timer.pack_timer_unit(unit), 1) == unit


@random_search
@given(st.integers(0, 1 << 40), int64, int64, int32, int32)
def test_slot_round_trip(seconds: int, first: int, last: int, number: int, magic: int) -> None:
    slot = timer.TimerSlot(seconds * 1000, first, last, number, magic)
    assert timer.unpack_timer_slot(timer.pack_timer_slot(slot)) == slot


def test_damage() -> None:
    for data in (b"", bytes(51), bytes(52), timer.pack_end_filler(100).ljust(52, b"\0")):
        with pytest.raises(StoreDamaged):
            timer.unpack_timer_unit(data)
    with pytest.raises(StoreDamaged):
        timer.unpack_timer_slot(bytes(31))


def test_filler_and_slot_number() -> None:
    assert timer.pack_end_filler(824).hex() == "00000338" + "0" * 16 + "cbd43194"
    assert timer.slot_of(1_209_600_000) == 0
    assert timer.slot_of(1_209_601_999) == 1


@random_search
@given(st.lists(offsets, max_size=8))
def test_op_body_round_trip(half_offsets: list[int]) -> None:
    body = timer.encode_op_body(half_offsets)
    assert timer.decode_op_body(body) == half_offsets
    assert timer.decode_op_body(body[:-1]) == half_offsets  # 4.x: no comma


@pytest.mark.parametrize("body", [b"x", b"1,-2,", b"1;2", "１".encode(), b"9" * 20])
def test_op_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(StoreDamaged):
        timer.decode_op_body(body)
