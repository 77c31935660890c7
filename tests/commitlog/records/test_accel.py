"""Accelerators against their plain twins and the definition; with numpy and without."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.index.index_format import key_hash
from commitlog.records import accel

from ..strategies import random_search

pytestmark = pytest.mark.usefixtures("numpy_loaded")

topics = st.sampled_from([b"T", b"TopicTest", "订单".encode()])
unique_keys = st.integers(0, 1 << 48).map(lambda number: b"C0A800011A2B5E91993F%012X" % number)
keys = st.text("aZ9订😀", min_size=1, max_size=8).map(str.encode) | unique_keys
pairs = st.lists(st.tuples(topics, keys), min_size=1, max_size=60)
equal_pairs = st.lists(st.tuples(topics, unique_keys), min_size=1, max_size=60)


@random_search
@given(pairs | equal_pairs)
def test_hashes(some: list[tuple[bytes, bytes]]) -> None:
    expected = [key_hash(f"{topic.decode()}#{key.decode()}") for topic, key in some]
    of_topics, of_keys = [topic for topic, _ in some], [key for _, key in some]
    assert accel.plain_index_key_hashes(of_topics, of_keys) == expected
    assert accel.index_key_hashes(of_topics, of_keys) == expected
    for start in range(0, len(some), 20):
        some_topics, some_keys = of_topics[start : start + 20], of_keys[start : start + 20]
        assert accel.index_key_hashes(some_topics, some_keys) == expected[start : start + 20]


def key_with_hash_int_minimum(topic: str) -> bytes:
    """A key that makes `topic#key` hash to int minimum, by digits of base 31."""
    start = key_hash_unsigned(f"{topic}#")
    rest = ((1 << 31) - start * pow(31, 7, 1 << 32)) % (1 << 32)
    for extra in range(31):
        total, digits = rest + (extra << 32), []
        for _ in range(7):
            total, digit = divmod(total - 48, 31)
            digits.append(digit + 48)
        if total == 0:
            return bytes(reversed(digits))
    raise AssertionError("no such key of seven digits")


def key_hash_unsigned(text: str) -> int:
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % (1 << 32)
    return value


def test_int_minimum_hashes_to_zero_in_every_version() -> None:
    key = key_with_hash_int_minimum("T")
    assert key_hash_unsigned(f"T#{key.decode()}") == 1 << 31
    assert key_hash(f"T#{key.decode()}") == 0
    assert accel.index_key_hash(b"T", key) == 0
    assert accel.index_key_hashes([b"T"] * 40, [key] * 40) == [0] * 40


def test_long_keys_and_broken_utf8() -> None:
    some = [b"k" * 300] * 20 + [b"\xff"] * 20
    expected = [key_hash("T#" + key.decode("utf-8", "replace")) for key in some]
    assert accel.index_key_hashes([b"T"] * 40, some) == expected


def test_without_numpy_the_plain_twin_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [b"C0A800011A2B5E91993F%012X" % number for number in range(100)]
    with_numpy = accel.index_key_hashes([b"T"] * 100, some)
    accel.unload()
    monkeypatch.setitem(sys.modules, "numpy", None)  # as if it were not installed
    assert not accel.load()
    assert not accel.is_loaded()
    assert accel.index_key_hashes([b"T"] * 100, some) == with_numpy


def test_a_flood_of_topics_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "_PREFIXES_MAX", 10)
    for number in range(30):
        assert accel.index_key_hash(b"t%d" % number, b"k") == key_hash(f"t{number}#k")
    assert len(accel._topic_hashes) <= 10
