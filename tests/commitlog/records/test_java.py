"""Java's hashes, against the definition written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from commitlog.records.java import (
    hash_map_order,
    hash_units,
    signed,
    string_hash,
    utf16_length,
    utf16_units,
)

from ..strategies import random_search, texts


def by_definition(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) % (1 << 32)
    return value - (1 << 32) if value >= 1 << 31 else value


@random_search
@given(texts | st.text(max_size=30) | st.text("abc", max_size=300))
def test_string_hash(text: str) -> None:
    assert string_hash(text) == by_definition(text)
    assert utf16_length(text) == len(text.encode("utf-16-be", "surrogatepass")) // 2


@random_search
@given(texts, texts)
def test_a_hash_can_be_continued(first: str, second: str) -> None:
    start = hash_units(utf16_units(first))
    assert signed(hash_units(utf16_units(second), start)) == string_hash(first + second)


def test_values_known_from_java() -> None:
    assert string_hash("") == 0
    assert string_hash("Aa") == string_hash("BB") == 2112
    assert string_hash("订单") == 1129459
    assert signed(0xFFFFFFFF) == -1


def test_a_map_grows_past_three_quarters() -> None:
    """13 keys in a map of 16 order as in one of 32; a repeated key keeps its place."""
    names = [chr(65 + number) * (number + 1) for number in range(13)]
    assert hash_map_order(names, 16) == hash_map_order([*names, names[0]], 32)
    assert hash_map_order(names[:12], 16) != hash_map_order(names[:12], 32)
    assert hash_map_order(["BB", "Aa"]) == ["BB", "Aa"]  # one bucket: insertion order
