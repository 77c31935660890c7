"""The table of delay levels (docs/spec/store.md 7.1)."""

from __future__ import annotations

import pytest

from commitlog.delay_levels import DEFAULT_DELAY_LEVELS, parse_delay_levels
from commitlog.errors import StoreConfigError


def test_the_default_table() -> None:
    levels = DEFAULT_DELAY_LEVELS
    assert levels.level_max == 18
    assert [levels.delay_ms(level) for level in (1, 5, 17, 18)] == [
        1000,
        60_000,
        3_600_000,
        7_200_000,
    ]
    assert levels.clamp(99) == 18
    assert levels.due_ms(1_000_000, 99) == 1_000_000 + 7_200_000
    assert levels.queue_id(18) == 17


def test_a_level_that_the_table_lacks_is_one_second() -> None:
    assert DEFAULT_DELAY_LEVELS.delay_ms(0) == DEFAULT_DELAY_LEVELS.delay_ms(19) == 1000


def test_units() -> None:
    assert parse_delay_levels(" 2s 2m  2h 2d").delays_ms == (2000, 120_000, 7_200_000, 172_800_000)


@pytest.mark.parametrize("text", ["", "1", "1x", "s", "-1s", "1.5s", "1s,2s", "1S"])
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(StoreConfigError):
        parse_delay_levels(text)
