"""Bitmaps of SQL92 subscriptions: what may be skipped, and what never (docs/spec/store.md 7.5)."""

from __future__ import annotations

import pytest

from cluster.core import filter_bits
from cluster.core.filter_bits import DEAD_KEPT_MS, FilterBits
from commitlog.queues.bloom import has_bits
from commitlog.queues.queue_ext_unit import QueueExtUnit

TEXT = "a > 5"


def registered(store_ms: int = 100, group: str = "G", text: str = TEXT) -> FilterBits:
    filters = FilterBits()
    filters.subscribe(group, {"T": (text, 1)}, store_ms)
    return filters


def unit(filters: FilterBits, properties: dict[str, str], store_ms: int) -> QueueExtUnit:
    return QueueExtUnit(0, store_ms, filters.bitmap("T", properties, store_ms))


def test_a_message_that_the_expression_does_not_take_is_skipped() -> None:
    filters = registered()
    assert filters.may_match("G", "T", TEXT, unit(filters, {"a": "7"}, 101))
    assert not filters.may_match("G", "T", TEXT, unit(filters, {"a": "3"}, 101))
    assert not filters.may_match("G", "T", TEXT, unit(filters, {}, 101))


def test_bits_are_those_of_the_group() -> None:
    filters = registered()
    filters.subscribe("Other", {"T": ("a < 5", 1)}, 100)
    bits = unit(filters, {"a": "7"}, 101).bitmap
    assert has_bits(bits, filters.bloom.positions("G", "T"))
    assert not has_bits(bits, filters.bloom.positions("Other", "T"))


def test_what_was_stored_before_the_registration_is_always_read() -> None:
    """Its bitmap was made without this expression, or on another stamp's word."""
    filters = registered(store_ms=100)
    for store_ms in (1, 99, 100):
        assert filters.may_match("G", "T", TEXT, unit(filters, {"a": "3"}, store_ms))
    empty = QueueExtUnit(0, 50, bytes(14))
    assert filters.may_match("G", "T", TEXT, empty)


def test_another_expression_begins_anew() -> None:
    filters = registered(store_ms=100)
    old = unit(filters, {"a": "3"}, 150)
    filters.subscribe("G", {"T": ("a < 5", 2)}, 200)
    assert filters.may_match("G", "T", "a < 5", old), "it was judged by the old expression"
    assert filters.may_match("G", "T", TEXT, old), "nobody is registered with that text"
    assert not filters.may_match("G", "T", "a < 5", unit(filters, {"a": "9"}, 201))


def test_a_group_that_left_is_not_evaluated_and_comes_back_later_born() -> None:
    filters = registered(store_ms=100)
    filters.leave("G", 200)
    missed = unit(filters, {"a": "7"}, 250)
    assert missed.bitmap == bytes(14)
    assert filters.may_match("G", "T", TEXT, missed)
    filters.subscribe("G", {"T": (TEXT, 1)}, 300)
    assert filters.may_match("G", "T", TEXT, missed), "stored while nobody was registered"
    assert not filters.may_match("G", "T", TEXT, unit(filters, {"a": "3"}, 301))


def test_a_topic_that_is_no_longer_subscribed_dies_alone() -> None:
    filters = FilterBits()
    filters.subscribe("G", {"T": (TEXT, 1), "U": (TEXT, 1)}, 100)
    filters.subscribe("G", {"U": (TEXT, 1)}, 200)
    assert {row.topic: row.dead_ms for row in filters.rows()} == {"T": 200, "U": 0}
    filters.expire(200 + DEAD_KEPT_MS)
    assert len(filters.rows()) == 2
    filters.expire(201 + DEAD_KEPT_MS)
    assert [row.topic for row in filters.rows()] == ["U"]
    assert filters.count == 1


def test_a_unit_of_another_size_or_none_is_no_reason_to_skip() -> None:
    filters = registered()
    assert filters.may_match("G", "T", TEXT, None)
    assert filters.may_match("G", "T", TEXT, QueueExtUnit(0, 500, b""))
    assert filters.may_match("G", "T", TEXT, QueueExtUnit(0, 500, bytes(13)))


def test_without_calculation_nothing_is_made_and_nothing_skipped() -> None:
    filters = FilterBits(calculates=False)
    filters.subscribe("G", {"T": (TEXT, 1)}, 1)
    assert filters.bitmap("T", {"a": "7"}, 5) == b""
    assert filters.may_match("G", "T", TEXT, QueueExtUnit(0, 500, bytes(14)))


def test_what_cannot_be_read_or_is_too_many_is_not_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filters = registered()
    filters.subscribe("G", {"T": ("a > '1'", 2)}, 100)
    assert filters.rows() == []
    monkeypatch.setattr(filter_bits, "REGISTERED_MAX", 1)
    filters.subscribe("G", {"T": (TEXT, 3)}, 100)
    filters.subscribe("H", {"T": (TEXT, 3)}, 100)
    assert [row.group for row in filters.rows()] == ["G"]
    assert filters.may_match("H", "T", TEXT, unit(filters, {"a": "7"}, 101))
