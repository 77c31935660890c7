"""Which topics and groups may exist (docs/spec/store.md 1.6)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from commitlog.errors import MessageTooLarge, StoreUsageError

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"

TOPIC_LENGTH_MAX: Final = 127  # one signed length byte in a V1 record
LONG_TOPIC_LENGTH_MAX: Final = 255  # retry and dead-letter topics, in V2 records
GROUP_LENGTH_MAX: Final = 120  # so that %RETRY%group still fits 127

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
DEFAULT_TOPIC: Final = "TBW102"  # template of auto-created topics
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"

# Topics that clients may not send to.
FORBIDDEN_TO_CLIENTS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

_SYSTEM_TOPICS: Final = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        "BenchmarkTest",
        HALF_TOPIC,
        "RMQ_SYS_TRACE_TOPIC",
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        "CHECKPOINT_TOPIC",
    }
)

LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")  # of topics and groups


def is_pop_retry(topic: str) -> bool:
    """Is it %RETRY%GROUP+TOPIC, which brokers make for groups that pop, and clients cannot?"""
    return topic.startswith(RETRY_PREFIX) and "+" in topic


def retry_readings(
    name: str, groups: Collection[str], topics: Collection[str]
) -> set[tuple[str, str]]:
    """The (group, topic) pairs of these that %RETRY%GROUP_TOPIC may stand for.

    `a_b_c` is of group a and topic b_c, or of group a_b and topic c. A group's own retry topic is
    read with the topic "".
    """
    rest = name.removeprefix(RETRY_PREFIX)
    found = {
        (rest[:at], rest[at + 1 :])
        for at, mark in enumerate(rest)
        if mark == "_" and rest[:at] in groups and rest[at + 1 :] in topics
    }
    return found | {(rest, "")} if rest in groups else found


def is_system_topic(topic: str, *, cluster: str = "", broker: str = "") -> bool:
    """Is the topic the system's own, given the names of this cluster and broker?"""
    if topic in _SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX):
        return True
    own = {cluster, broker, f"{cluster}_REPLY_TOPIC" if cluster else ""} - {""}
    return topic in own


def check_topic(topic: str) -> None:
    """Raises StoreUsageError, or MessageTooLarge above 127 (retry and DLQ topics: 255)."""
    _check_name("topic", topic)
    long = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    length_max = LONG_TOPIC_LENGTH_MAX if long else TOPIC_LENGTH_MAX
    if len(topic) > length_max:
        raise MessageTooLarge("topic", len(topic), length_max)


def check_stored_topic(topic: str) -> None:
    """Refuse topics that RocketMQ's put hook refuses: over 127 bytes only retry topics pass.

    Raises MessageTooLarge.
    """
    size = len(topic.encode("utf-8", "replace"))
    size_max = LONG_TOPIC_LENGTH_MAX if topic.startswith(RETRY_PREFIX) else TOPIC_LENGTH_MAX
    if size > size_max:
        raise MessageTooLarge("topic", size, size_max)


def check_group(group: str) -> None:
    """Raises StoreUsageError for an illegal name of a producer or consumer group."""
    _check_name("group", group)
    if len(group) > GROUP_LENGTH_MAX:
        raise MessageTooLarge("group", len(group), GROUP_LENGTH_MAX)


def _check_name(kind: str, name: str) -> None:
    if not name.strip():
        raise StoreUsageError(f"the {kind} is blank; give it a name")
    if LEGAL.fullmatch(name) is None:
        raise StoreUsageError(
            f"{kind} {name!r} holds a character that names may not have; "
            "use only letters, digits and % | - _"
        )
