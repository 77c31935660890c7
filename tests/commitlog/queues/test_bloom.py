"""Bloom filter of SQL92 subscriptions (docs/spec/store.md 7.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreConfigError
from commitlog.queues.bloom import has_bits, murmur3_128, new_bloom_filter, set_bits

from ..strategies import random_search, texts


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        # Of the reference implementation (smhasher, x64, 128 bits, seed 0).
        (b"", 0, 0),
        (b"hello", 0xCBD8A7B341BD9B02, 0x5B1E906A48AE1D19),
        (b"hello, world", 0x342FAC623A5EBC8E, 0x4CDCBC079642414D),
        (b"The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9, 0x695DA1A38987B6E7),
    ],
)
def test_murmur3(text: bytes, low: int, high: int) -> None:
    assert murmur3_128(text) == (low, high)


@random_search
@given(texts, texts, st.integers(1, 99), st.integers(1, 500))
def test_positions_are_within_and_found_again(
    group: str, topic: str, error_percent: int, consumers: int
) -> None:
    bloom = new_bloom_filter(error_percent, consumers)
    positions = bloom.positions(group, topic)
    assert len(positions) == bloom.k
    assert all(0 <= position < bloom.m for position in positions)
    bitmap = bloom.empty()
    assert not has_bits(bitmap, positions)
    set_bits(bitmap, positions)
    assert has_bits(bitmap, positions)
    assert sum(byte.bit_count() for byte in bitmap) == len(set(positions))


@pytest.mark.parametrize(("error_percent", "consumers"), [(0, 32), (100, 32), (20, 0)])
def test_impossible_filters(error_percent: int, consumers: int) -> None:
    with pytest.raises(StoreConfigError):
        new_bloom_filter(error_percent, consumers)
