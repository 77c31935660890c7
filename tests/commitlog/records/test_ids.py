"""Message ids as text (docs/spec/store.md 6.8)."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreUsageError
from commitlog.records import ids
from commitlog.records.hosts import Host

from ..strategies import hosts, offsets, random_search


def ms(*date: int) -> int:
    return int(datetime(*date).timestamp() * 1000)  # type: ignore[arg-type]


@random_search
@given(hosts(), offsets)
def test_offset_id_round_trip(host: Host, offset: int) -> None:
    text = ids.encode_offset_id(host, offset)
    assert text == text.upper()
    assert ids.decode_offset_id(text) == ids.decode_offset_id(text.lower()) == (host, offset)


@random_search
@given(hosts(), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_unique_key_round_trip(host: Host, small: int, loader: int, elapsed: int) -> None:
    key = ids.UniqueKey(host.ip, small, loader, elapsed, small)
    assert ids.decode_unique_key(ids.encode_unique_key(key)) == key


@random_search
@given(st.text(max_size=60) | st.text("0123456789ABCDEFx ", max_size=60))
def test_foreign_text_is_a_usage_error(text: str) -> None:
    for decode in (ids.decode_offset_id, ids.decode_unique_key):
        try:
            decode(text)
        except StoreUsageError:
            continue
        assert len(text) in (32, 56)


def test_a_negative_offset_is_no_offset_id() -> None:
    with pytest.raises(StoreUsageError, match="negative"):
        ids.decode_offset_id("7F00000100002A9F" + "F" * 16)


def test_keys_count_up_within_a_millisecond_and_start_over_each_month() -> None:
    now = [ms(2023, 12, 31, 23, 59, 59)]
    generator = ids.UniqueKeyGenerator("10.0.0.1", 6699, 7, lambda: now[0])
    first, second = (ids.decode_unique_key(generator.next()) for _ in range(2))
    assert (first.counter, second.counter) == (0, 1)
    assert first.elapsed_ms == second.elapsed_ms == (31 * 86_400 - 1) * 1000
    assert (first.ip, first.process_id, first.loader_hash) == ("10.0.0.1", 6699, 7)
    now[0] += 2000
    assert ids.decode_unique_key(generator.next()).elapsed_ms == 1000


def test_a_clock_that_goes_back_makes_no_key_twice() -> None:
    now = [ms(2024, 5, 1)]
    generator = ids.UniqueKeyGenerator("10.0.0.1", 1, 1, lambda: now[0])
    made = set()
    for step in (5, -3, 1, -1, 2, -10_000):
        now[0] += step
        made.update(generator.next() for _ in range(1000))
    assert len(made) == 6000


def test_when_a_key_was_made() -> None:
    made = ms(2024, 2, 29, 12)
    generator = ids.UniqueKeyGenerator("10.0.0.1", 1, 1, lambda: made)
    key = ids.decode_unique_key(generator.next())
    assert ids.created_ms(key, ms(2024, 2, 29, 13)) == made
    assert ids.created_ms(key, ms(2024, 3, 10)) == made
    assert ids.next_month_start_ms(ms(2024, 12, 1)) == ms(2025, 1, 1)


def test_an_id_made_by_java_on_ipv6_can_be_read() -> None:
    text = "20010DB80000000000000000000000011A2B5E91993F0012D6870001"
    assert ids.decode_unique_key(text).ip == "2001:db8::1"
