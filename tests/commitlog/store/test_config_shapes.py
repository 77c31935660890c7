"""The four exported tables ⇄ RocketMQ's bean shapes (docs/spec/store.md 5.4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreDamaged
from commitlog.store import config_shapes as shapes
from commitlog.store.config_json import parse_config, render_config

from ..strategies import random_search

names = st.text("abc_%-|", min_size=1, max_size=6)
numbers = st.integers(0, 1 << 40)
versions = st.builds(shapes.DataVersion, numbers, numbers, numbers)
attributes = st.dictionaries(names, names, max_size=2)
topic_rows = st.builds(
    shapes.TopicRow, names, numbers, numbers, numbers, names, numbers, st.booleans(), attributes
)
group_rows = st.builds(
    shapes.GroupRow, names, consume_enabled=st.booleans(), retry_max_times=numbers
)
queue_offsets = st.dictionaries(st.integers(0, 99), numbers, min_size=1, max_size=4)


def through_file(value: dict[str, Any]) -> dict[str, Any]:
    return parse_config(render_config(value))


@random_search
@given(st.lists(topic_rows, unique_by=lambda row: row.name, max_size=3), versions)
def test_topics(rows: list[shapes.TopicRow], version: shapes.DataVersion) -> None:
    assert shapes.read_topics(through_file(shapes.topics_file(rows, version))) == (rows, version)


@random_search
@given(st.lists(group_rows, unique_by=lambda row: row.name, max_size=3), versions)
def test_groups(rows: list[shapes.GroupRow], version: shapes.DataVersion) -> None:
    assert shapes.read_groups(through_file(shapes.groups_file(rows, version))) == (rows, version)


@random_search
@given(st.dictionaries(st.tuples(names, names), queue_offsets, max_size=3), versions)
def test_consumer_offsets(
    offsets: dict[tuple[str, str], dict[int, int]], version: shapes.DataVersion
) -> None:
    value = shapes.consumer_offsets_file(offsets, version)
    assert shapes.read_consumer_offsets(value) == (offsets, version)
    assert shapes.read_consumer_offsets(through_file(value)) == (offsets, version)


@random_search
@given(queue_offsets, versions)
def test_delay_offsets(offsets: dict[int, int], version: shapes.DataVersion) -> None:
    value = shapes.delay_offsets_file(offsets, version)
    assert shapes.read_delay_offsets(through_file(value)) == (offsets, version)


def test_fields_stand_in_alphabetical_order() -> None:
    version = shapes.DataVersion()
    for row in (shapes.TopicRow("t").to_dict(), shapes.GroupRow("g").to_dict(), version.to_dict()):
        assert list(row) == sorted(row)
    for file in (
        shapes.topics_file([], version),
        shapes.groups_file([], version),
        shapes.consumer_offsets_file({}, version),
        shapes.delay_offsets_file({}, version),
    ):
        assert list(file) == sorted(file)


def test_the_text_of_a_topic() -> None:
    row = shapes.TopicRow("orders", 4, 4)
    text = render_config(shapes.topics_file([row], shapes.DataVersion(3, 1700000000000)))
    assert text.decode().startswith('{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0,')
    assert '\t\t"orders":{\n\t\t\t"attributes":{},\n\t\t\t"order":false,\n' in text.decode()


def test_files_of_4x_lack_fields() -> None:
    data = {"topicConfigTable": {"t": {"perm": 4, "readQueueNums": 2, "unknown": 1}}}
    rows, version = shapes.read_topics(data)
    assert rows == [shapes.TopicRow("t", read_queues=2, permission=4)]
    assert version == shapes.DataVersion()
    assert shapes.read_groups({}) == ([], version)
    assert shapes.read_consumer_offsets({"offsetTable": {"no-at-sign": {}}}) == ({}, version)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (shapes.read_topics, {"topicConfigTable": 5}),
        (shapes.read_topics, {"topicConfigTable": {"t": 5}}),
        (shapes.read_topics, {"topicConfigTable": {"t": {"perm": "6"}}}),
        (shapes.read_topics, {"dataVersion": {"counter": True}}),
        (shapes.read_groups, {"subscriptionGroupTable": {"g": {"consumeEnable": 1}}}),
        (shapes.read_consumer_offsets, {"offsetTable": {"t@g": {"x": 1}}}),
        (shapes.read_consumer_offsets, {"offsetTable": {"t@g": {"1": "1"}}}),
        (shapes.read_delay_offsets, {"offsetTable": {"1_0": 1}}),
        (shapes.read_delay_offsets, {"offsetTable": {"-1": 1}}),
    ],
)
def test_values_of_a_wrong_kind_are_damage(read: Any, data: dict[str, Any]) -> None:
    with pytest.raises(StoreDamaged, match="config file"):
        read(data)
