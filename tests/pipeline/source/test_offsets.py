"""Offsets in a checkpoint, limits, admission: plain functions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.protocol.json_body import MessageQueue
from pipeline.options import OptionError
from pipeline.source.offsets import (
    CheckpointError,
    QueueRange,
    by_name,
    fixed_options,
    from_json,
    split_limit,
    to_json,
)
from pipeline.source.options import source_options
from pipeline.source.waiting import Admission, admitted
from pipeline.source.ways import kept

A0, A1, B0 = (MessageQueue("t", "a", 0), MessageQueue("t", "a", 1), MessageQueue("u", "b", 0))
BASE = {"bootstrap.servers": "h:1", "subscribe": "t"}


def test_the_form_of_an_offset_is_fixed() -> None:
    """Checkpoints outlive releases: this text must never change for version 1."""
    text = json.dumps(to_json({B0: 3, A1: 0, A0: 17}, {"subscribe": "t,u"}))
    assert text == (
        '{"$dledger": {"version": 1, "options": {"subscribe": "t,u"}}, '
        '"t": {"a/0": 17, "a/1": 0}, "u": {"b/0": 3}}'
    )
    assert from_json(json.loads(text), {"subscribe": "t,u"}) == {A0: 17, A1: 0, B0: 3}


def test_the_way_of_reading_stands_beside_the_options() -> None:
    text = json.dumps(to_json({A0: 17}, {}, "mixed"))
    assert text == '{"$dledger": {"version": 1, "options": {}, "fetch": "mixed"}, "t": {"a/0": 17}}'
    assert kept(json.loads(text)) == "mixed"
    assert kept(to_json({A0: 17}, {})) == "", "of an earlier release"
    assert from_json(json.loads(text), {}) == {A0: 17}


def test_names_with_slashes_and_signs_come_back() -> None:
    odd = MessageQueue("%RETRY%g", "broker/with/slash", 12)
    assert from_json(to_json({odd: 1}, {}), {}) == {odd: 1}


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"t": {"a/0": 5}}, "not written by this source"),
        ({"$dledger": {"version": 2}}, "has version 2"),
        ({"$dledger": {}}, "has version None"),
    ],
)
def test_a_foreign_offset_is_refused(value: dict[str, dict[str, int]], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        from_json(value, {})


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("columns", {}, {"columns": "topic"}),
        ("schemaStyle", {"schemaStyle": "kafka"}, {}),
        ("includeHeaders", {}, {"includeHeaders": "true"}),
        ("subExpression", {"subExpression": "a"}, {"subExpression": "b"}),
        ("subscribe", {}, {"subscribe": "t,u"}),
        ("bytesPerPartition", {}, {"bytesPerPartition": "1m"}),
        ("maxPartitions", {"maxPartitions": "4"}, {"maxPartitions": "8"}),
    ],
)
def test_a_changed_option_is_refused(
    name: str, before: dict[str, str], now: dict[str, str]
) -> None:
    written = to_json({A0: 1}, fixed_options(source_options({**BASE, **before}, streaming=True)))
    fixed = fixed_options(source_options({**BASE, **now}, streaming=True))
    with pytest.raises(CheckpointError, match=f"^{name} was"):
        from_json(written, fixed)


def test_limits_may_change() -> None:
    before = fixed_options(source_options(BASE, streaming=True))
    more = {"maxOffsetsPerTrigger": "5", "failOnDataLoss": "false", "numRetries": "3"}
    assert fixed_options(source_options({**BASE, **more}, streaming=True)) == before


LAGS = st.dictionaries(
    st.integers(0, 40).map(lambda n: MessageQueue("t", "a", n)), st.integers(0, 1 << 40)
)


@given(LAGS, st.integers(1, 1 << 41))
def test_a_limit_is_split_in_proportion(lags: dict[MessageQueue, int], budget: int) -> None:
    taken = split_limit(lags, budget)
    assert set(taken) == {queue for queue, lag in lags.items() if lag}
    for queue, count in taken.items():
        assert 1 <= count <= lags[queue]
        assert (
            count <= max(1, lags[queue] * budget // max(sum(lags.values()), 1))
            or sum(lags.values()) <= budget
        )
    assert sum(taken.values()) <= max(budget, 0) + len(taken)


def _lags(*sizes: int) -> list[QueueRange]:
    return [
        QueueRange(MessageQueue("t", "a", number), 100, 100 + size)
        for number, size in enumerate(sizes)
    ]


def _never() -> dict[str, int]:
    raise AssertionError("sizes are asked for only when bytes are limited")


def test_admission_by_offsets() -> None:
    taken = admitted(_lags(900, 90, 10), Admission(offsets_max=100), _never)
    assert [item.size for item in taken] == [90, 9, 1]
    assert all(item.start == 100 for item in taken)
    assert admitted(_lags(5, 0), Admission(), _never) == _lags(5)


def test_admission_by_bytes_is_by_estimated_size() -> None:
    taken = admitted(_lags(600, 400), Admission(bytes_max=10_000), lambda: {"t": 100})
    assert [item.size for item in taken] == [60, 40]
    both = Admission(offsets_max=50, bytes_max=10_000)
    assert sum(item.size for item in admitted(_lags(600, 400), both, lambda: {"t": 100})) == 50
    huge = admitted(_lags(600), Admission(bytes_max=1), lambda: {"t": 100})
    assert [item.size for item in huge] == [1], "a message larger than the limit still goes"


def test_admission_waits_for_the_least() -> None:
    assert admitted(_lags(3, 6), Admission(offsets_min=10), _never) == []
    assert len(admitted(_lags(4, 6), Admission(offsets_min=10), _never)) == 2


def test_users_name_queues_with_or_without_the_broker() -> None:
    both = {A0: None, MessageQueue("t", "b", 0): None, A1: None}
    assert by_name(both, "t", "a/0", "assign") == A0
    assert by_name(both, "t", "1", "assign") == A1
    assert by_name(both, "t", "7", "assign") is None
    with pytest.raises(OptionError, match="assign: queue 0 of t is on a, b; say which"):
        by_name(both, "t", "0", "assign")
