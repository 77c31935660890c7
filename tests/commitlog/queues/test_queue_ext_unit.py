"""Units of consume queue extension files (docs/spec/store.md 3.4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from commitlog.queues.queue_ext_unit import (
    BITMAP_SIZE_MAX,
    FILE_END,
    QueueExtUnit,
    fits,
    pack_ext_unit,
    unpack_ext_unit,
)

from ..strategies import int64, random_search

units = st.builds(QueueExtUnit, int64, int64, st.binary(max_size=20))


@random_search
@given(units, st.binary(max_size=5), st.binary(max_size=5))
def test_round_trip(unit: QueueExtUnit, before: bytes, after: bytes) -> None:
    data = pack_ext_unit(unit)
    assert len(data) == unit.size
    assert unpack_ext_unit(before + data + after, len(before)) == unit
    assert unpack_ext_unit(data[:-1]) is None


@random_search
@given(st.binary(max_size=60))
def test_rubbish_is_a_unit_that_packs_again_or_none(data: bytes) -> None:
    unit = unpack_ext_unit(data)
    assert unit is None or data.startswith(pack_ext_unit(unit))


def test_the_ends() -> None:
    assert unpack_ext_unit(FILE_END.ljust(40, b"\0")) is None
    assert unpack_ext_unit(bytes(40)) is None
    largest = QueueExtUnit(0, 0, bytes(BITMAP_SIZE_MAX))
    assert unpack_ext_unit(pack_ext_unit(largest)) == largest
    assert fits(34, 38)
    assert not fits(34, 37)
