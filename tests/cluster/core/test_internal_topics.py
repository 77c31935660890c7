"""Records of internal topics: one change has one byte form, and what is odd is refused."""

from __future__ import annotations

import pytest

from cluster.core.internal_topics import (
    CHECKS_TOPIC,
    GROUPS_TOPIC,
    LOCKS_TOPIC,
    MODES_TOPIC,
    OFFSETS_TOPIC,
    TOPICS_TOPIC,
    GroupsChanged,
    HalvesChecked,
    LocksChanged,
    OffsetsCommitted,
    RequestModeChanged,
    StateChange,
    StateRecordError,
    TopicsChanged,
    decode_change,
    encode_change,
)
from cluster.core.request_modes import RequestMode
from cluster.core.subscription_groups import new_group
from cluster.core.topics import TopicConfig


@pytest.mark.parametrize(
    ("change", "topic"),
    [
        (TopicsChanged(put=(TopicConfig("T", 2, 3, attributes={"a": "b"}),)), TOPICS_TOPIC),
        (TopicsChanged(delete=("T", "U")), TOPICS_TOPIC),
        (GroupsChanged(put=(new_group("g"),)), GROUPS_TOPIC),
        (GroupsChanged(delete=("g",)), GROUPS_TOPIC),
        (GroupsChanged(delete=("g",), clean_offset=True), GROUPS_TOPIC),
        (GroupsChanged(forbid={"g": {"T": 1}}), GROUPS_TOPIC),
        (LocksChanged("g", {("T", 0): "c", ("T", 1): ""}), LOCKS_TOPIC),
        (HalvesChecked({48: 1, 1 << 40: 15}), CHECKS_TOPIC),
        (RequestModeChanged(RequestMode("T", "g", "POP", 2)), MODES_TOPIC),
        (OffsetsCommitted("g", {"T": {0: 5, 11: 6}, "U": {1: 0}}), OFFSETS_TOPIC),
    ],
)
def test_a_change_survives_its_record(change: StateChange, topic: str) -> None:
    record = encode_change(change)
    assert record.topic == topic
    assert decode_change(record.topic, record.body) == change
    assert encode_change(decode_change(record.topic, record.body)) == record


def test_the_byte_form_is_fixed() -> None:
    record = encode_change(OffsetsCommitted("g", {"b": {1: 2}, "a": {0: 1}}))
    assert record.body == b'{"group":"g","offsets":{"a":{"0":1},"b":{"1":2}}}'


@pytest.mark.parametrize(
    ("topic", "body"),
    [
        (OFFSETS_TOPIC, b"{"),
        (OFFSETS_TOPIC, b"[]"),
        (OFFSETS_TOPIC, b'{"group":"g"}'),
        (TOPICS_TOPIC, b'{"put":[{"topicName":"T"}]}'),
        ("rmq_sys_dledger_other", b"{}"),
    ],
)
def test_a_record_that_says_nothing_known_is_refused(topic: str, body: bytes) -> None:
    with pytest.raises(StateRecordError, match="cannot be understood"):
        decode_change(topic, body)
