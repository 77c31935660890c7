"""Legal topics and groups, system topics (docs/spec/store.md 1.6)."""

from __future__ import annotations

import pytest

from commitlog.errors import MessageTooLarge, StoreUsageError
from commitlog.records import names


@pytest.mark.parametrize("name", ["a", "A-b_9", "%RETRY%g|x", "x" * 120])
def test_legal(name: str) -> None:
    names.check_topic(name)
    names.check_group(name)


@pytest.mark.parametrize("name", ["", " ", "a b", "订单", "a.b", "a\n", "a+b"])
def test_illegal(name: str) -> None:
    for check in (names.check_topic, names.check_group):
        with pytest.raises(StoreUsageError):
            check(name)


def test_lengths() -> None:
    names.check_topic("x" * 127)
    names.check_topic("%DLQ%" + "x" * 250)
    names.check_stored_topic("%RETRY%" + "x" * 248)
    for check, name in (
        (names.check_topic, "x" * 128),
        (names.check_topic, "%RETRY%" + "x" * 249),
        (names.check_group, "x" * 121),
        (names.check_stored_topic, "%DLQ%" + "x" * 123),
        (names.check_stored_topic, "%RETRY%" + "x" * 249),
    ):
        with pytest.raises(MessageTooLarge):
            check(name)


def test_system_topics() -> None:
    for topic in ("TBW102", "rmq_sys_anything", "SCHEDULE_TOPIC_XXXX"):
        assert names.is_system_topic(topic)
    assert names.is_system_topic("c_REPLY_TOPIC", cluster="c", broker="b")
    assert names.is_system_topic("b", cluster="c", broker="b")
    assert not names.is_system_topic("_REPLY_TOPIC")
    assert not names.is_system_topic("orders", cluster="c", broker="b")
    assert names.HALF_TOPIC in names.FORBIDDEN_TO_CLIENTS
    assert names.DEFAULT_TOPIC not in names.FORBIDDEN_TO_CLIENTS
