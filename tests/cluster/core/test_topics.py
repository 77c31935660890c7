"""Topic table: built-in rows, auto-creation, legal names (docs/spec/remoting.md 4.2)."""

from __future__ import annotations

import pytest

from cluster.core.topics import (
    DataVersion,
    TopicConfig,
    TopicTable,
    built_in_topics,
    group_name_error,
    topic_name_error,
)


@pytest.fixture
def table() -> TopicTable:
    return TopicTable(built_in_topics("DefaultCluster", "broker-a"))


def test_built_in_rows_are_there_without_a_record(table: TopicTable) -> None:
    default = table.get("TBW102")
    assert default is not None
    assert (default.perm, default.write_queues) == (7, 8)
    assert table.get("SCHEDULE_TOPIC_XXXX") == TopicConfig("SCHEDULE_TOPIC_XXXX", 18, 18)
    assert table.get("broker-a") is not None
    assert table.logged() == []


@pytest.mark.parametrize(("wish", "queues"), [(4, 4), (16, 8), (0, 1), (-3, 1)])
def test_auto_creation_takes_the_smaller_number_of_queues(
    table: TopicTable, wish: int, queues: int
) -> None:
    config = table.plan_auto_create("T", "TBW102", wish)
    assert config == TopicConfig("T", queues, queues, perm=6)


def test_auto_creation_needs_the_inherit_bit(table: TopicTable) -> None:
    table.replay_put(TopicConfig("parent", 4, 4, perm=6), 1)
    assert table.plan_auto_create("T", "parent", 4) is None
    assert table.plan_auto_create("T", "missing", 4) is None


def test_a_group_topic_has_the_queues_that_its_sender_chooses_from(table: TopicTable) -> None:
    """A stock producer takes the default topic's route for it, so it may name queue 3 of 4."""
    assert table.plan_auto_create("%RETRY%g", "TBW102", 4) == TopicConfig("%RETRY%g", 4, 4)


def test_retry_and_dead_letter_topics_without_a_default_topic_have_one_queue(
    table: TopicTable,
) -> None:
    assert table.plan_auto_create("%RETRY%g", "missing", 4) == TopicConfig("%RETRY%g", 1, 1)
    assert table.plan_auto_create("%DLQ%g", "missing", 4) == TopicConfig("%DLQ%g", 1, 1)


def test_a_deleted_built_in_row_falls_back_to_what_it_was(table: TopicTable) -> None:
    before = table.get("TBW102")
    table.replay_put(TopicConfig("TBW102", 2, 2, perm=7), 5)
    table.replay_deletion("TBW102", 6)
    assert table.get("TBW102") == before
    table.replay_put(TopicConfig("T"), 7)
    table.replay_deletion("T", 8)
    assert table.get("T") is None
    assert table.version == DataVersion(counter=4, timestamp=8)


def test_a_row_survives_json() -> None:
    config = TopicConfig("T", 3, 5, 4, "MULTI_TAG", 2, True, {"queue.type": "BatchCQ"})
    assert TopicConfig.from_json(config.to_json()) == config
    assert config.queues == 5


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("orders", None),
        ("%RETRY%a|b-c_D9", None),
        ("", "empty"),
        ("a b", "characters"),
        ("ünïcode", "characters"),
        ("x" * 127, None),
        ("x" * 128, "127"),
    ],
)
def test_topic_names(name: str, wrong: str | None) -> None:
    error = topic_name_error(name)
    assert (error is None) if wrong is None else (error is not None and wrong in error)


def test_group_names_leave_room_for_the_retry_prefix() -> None:
    assert group_name_error("g" * 120) is None
    assert group_name_error("g" * 121) is not None
    assert topic_name_error("%RETRY%" + "g" * 120) is None
