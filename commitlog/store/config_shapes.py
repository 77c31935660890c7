"""Shapes of topics.json, subscriptionGroup.json, consumerOffset.json, delayOffset.json.

Each value class turns into the dictionary that RocketMQ's bean would, and back (docs/spec/store.md
5.4). Reading takes what other versions write: unknown fields are ignored, missing ones have the
bean's default. In a replicated store these files are exports; the log is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from commitlog.errors import StoreDamaged

T = TypeVar("T")

PERMISSION_READ: Final = 4
PERMISSION_WRITE: Final = 2
PERMISSION_INHERIT: Final = 1
KEY_SEPARATOR: Final = "@"

OffsetTable = Mapping[tuple[str, str], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class DataVersion:
    """How often a file's content changed; `state_version` is absent in 4.x."""

    counter: int = 0
    timestamp_ms: int = 0
    state_version: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The object that stands in the JSON files."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> DataVersion:
        """Inverse of `to_dict`; a missing field is 0."""
        return DataVersion(
            _get(data, "counter", 0), _get(data, "timestamp", 0), _get(data, "stateVersion", 0)
        )


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic of topics.json. `permission` adds 4 read, 2 write, 1 inherit."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    permission: int = PERMISSION_READ | PERMISSION_WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    is_ordered: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The topic's row of topics.json."""
        return {
            "attributes": dict(self.attributes),
            "order": self.is_ordered,
            "perm": self.permission,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> TopicRow:
        """Inverse of `to_dict`; a missing field has RocketMQ's default."""
        return TopicRow(
            name=_get(data, "topicName", ""),
            read_queues=_get(data, "readQueueNums", 16),
            write_queues=_get(data, "writeQueueNums", 16),
            permission=_get(data, "perm", PERMISSION_READ | PERMISSION_WRITE),
            filter_type=_get(data, "topicFilterType", "SINGLE_TAG"),
            sys_flag=_get(data, "topicSysFlag", 0),
            is_ordered=_get(data, "order", False),
            attributes={str(key): str(item) for key, item in _map(data, "attributes").items()},
        )


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One consumer group of subscriptionGroup.json."""

    name: str
    consume_enabled: bool = True
    consume_from_min_enabled: bool = True
    broadcast_enabled: bool = True
    consume_orderly: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    slow_broker_id: int = 1
    notify_changes: bool = True
    sys_flag: int = 0
    consume_timeout_minutes: int = 15
    attributes: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The group's row of subscriptionGroup.json."""
        return {
            "attributes": dict(self.attributes),
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.broadcast_enabled,
            "consumeEnable": self.consume_enabled,
            "consumeFromMinEnable": self.consume_from_min_enabled,
            "consumeMessageOrderly": self.consume_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minutes,
            "groupName": self.name,
            "groupRetryPolicy": dict(self.retry_policy),
            "groupSysFlag": self.sys_flag,
            "notifyConsumerIdsChangedEnable": self.notify_changes,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queues,
            "whichBrokerWhenConsumeSlowly": self.slow_broker_id,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> GroupRow:
        """Inverse of `to_dict`; a missing field has RocketMQ's default."""
        return GroupRow(
            name=_get(data, "groupName", ""),
            consume_enabled=_get(data, "consumeEnable", True),
            consume_from_min_enabled=_get(data, "consumeFromMinEnable", True),
            broadcast_enabled=_get(data, "consumeBroadcastEnable", True),
            consume_orderly=_get(data, "consumeMessageOrderly", False),
            retry_queues=_get(data, "retryQueueNums", 1),
            retry_max_times=_get(data, "retryMaxTimes", 16),
            retry_policy=dict(_map(data, "groupRetryPolicy")) or {"type": "CUSTOMIZED"},
            broker_id=_get(data, "brokerId", 0),
            slow_broker_id=_get(data, "whichBrokerWhenConsumeSlowly", 1),
            notify_changes=_get(data, "notifyConsumerIdsChangedEnable", True),
            sys_flag=_get(data, "groupSysFlag", 0),
            consume_timeout_minutes=_get(data, "consumeTimeoutMinute", 15),
            attributes={str(key): str(item) for key, item in _map(data, "attributes").items()},
        )


def topics_file(rows: Iterable[TopicRow], version: DataVersion) -> dict[str, Any]:
    """The content of topics.json."""
    table = {row.name: row.to_dict() for row in rows}
    return {"dataVersion": version.to_dict(), "topicConfigTable": table}


def read_topics(data: Mapping[str, Any]) -> tuple[list[TopicRow], DataVersion]:
    """Rows in the file's order. Raises StoreDamaged for values of a wrong kind."""
    rows = [TopicRow.from_dict(row) for row in _rows(data, "topicConfigTable", "topicName")]
    return rows, DataVersion.from_dict(_map(data, "dataVersion"))


def groups_file(rows: Iterable[GroupRow], version: DataVersion) -> dict[str, Any]:
    """The content of subscriptionGroup.json."""
    table = {row.name: row.to_dict() for row in rows}
    return {
        "dataVersion": version.to_dict(),
        "forbiddenTable": {},
        "subscriptionGroupTable": table,
    }


def read_groups(data: Mapping[str, Any]) -> tuple[list[GroupRow], DataVersion]:
    """Rows in the file's order. Raises StoreDamaged for values of a wrong kind."""
    rows = [GroupRow.from_dict(row) for row in _rows(data, "subscriptionGroupTable", "groupName")]
    return rows, DataVersion.from_dict(_map(data, "dataVersion"))


def consumer_offsets_file(offsets: OffsetTable, version: DataVersion) -> dict[str, Any]:
    """`offsets`: (topic, group) → queue id → next queue offset to read."""
    groups: dict[str, list[str]] = {}
    for topic, group in offsets:
        groups.setdefault(group, []).append(topic)
    table = {f"{topic}{KEY_SEPARATOR}{group}": dict(row) for (topic, group), row in offsets.items()}
    return {"dataVersion": version.to_dict(), "groupTopicMap": groups, "offsetTable": table}


def read_consumer_offsets(
    data: Mapping[str, Any],
) -> tuple[dict[tuple[str, str], dict[int, int]], DataVersion]:
    """Inverse of `consumer_offsets_file`; keys that are no topic@group are ignored."""
    offsets: dict[tuple[str, str], dict[int, int]] = {}
    for key in _map(data, "offsetTable"):
        topic, separator, group = key.partition(KEY_SEPARATOR)
        if separator:
            offsets[topic, group] = _integer_map(_map(data, "offsetTable"), key)
    return offsets, DataVersion.from_dict(_map(data, "dataVersion"))


def delay_offsets_file(offsets: Mapping[int, int], version: DataVersion) -> dict[str, Any]:
    """`offsets`: delay level → next queue offset of queue level - 1 of the schedule topic."""
    return {"dataVersion": version.to_dict(), "offsetTable": dict(offsets)}


def read_delay_offsets(data: Mapping[str, Any]) -> tuple[dict[int, int], DataVersion]:
    """Delay level → next offset of its queue, and the version of delayOffset.json."""
    return _integer_map(data, "offsetTable"), DataVersion.from_dict(_map(data, "dataVersion"))


def _rows(data: Mapping[str, Any], name: str, name_field: str) -> list[Mapping[str, Any]]:
    table = _map(data, name)
    return [{name_field: key, **_map(table, key)} for key in table]


def _map(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise StoreDamaged(f"{name!r} in a config file is no object but {value!r:.80}")
    return value


def _integer_map(data: Mapping[str, Any], name: str) -> dict[int, int]:
    result: dict[int, int] = {}
    for key, value in _map(data, name).items():
        digits = str(key)
        is_key = digits.isascii() and digits.isdigit() and len(digits) <= 10
        if not is_key or isinstance(value, bool) or not isinstance(value, int):
            raise StoreDamaged(f"{name!r} in a config file maps {key!r:.80} to {value!r:.80}")
        result[int(digits)] = value
    return result


def _get(data: Mapping[str, Any], name: str, default: T) -> T:
    value = data.get(name)
    if value is None:
        return default
    if type(value) is not type(default):
        raise StoreDamaged(
            f"{name!r} in a config file is {value!r:.80} and no {type(default).__name__}"
        )
    return value
