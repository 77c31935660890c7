"""Topics: settings, legal names, rows that auto-creation makes (docs/spec/remoting.md 4.2).

The table is the fold of the log's topic records over the built-in rows; it holds nothing else, so
every replica that applied the same prefix has the same table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from commitlog.records import names

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4

DEFAULT_TOPIC = names.DEFAULT_TOPIC
RETRY_PREFIX = names.RETRY_PREFIX
DLQ_PREFIX = names.DLQ_PREFIX
SYSTEM_PREFIX = names.SYSTEM_PREFIX
FORBIDDEN_TO_CLIENTS = names.FORBIDDEN_TO_CLIENTS

#: Its records hold secrets, so no client reads them (internal_topics.py).
ACCOUNTS_TOPIC = "rmq_sys_dledger_accounts"
#: Of the audit log, which administrators alone read (cluster/core/audit/entry.py).
AUDIT_TOPIC = "rmq_sys_dledger_audit"
AUDIT_KEPT_TOPIC = "rmq_sys_dledger_audit_kept"
AUDIT_TOPICS = frozenset({AUDIT_TOPIC, AUDIT_KEPT_TOPIC})

TOPIC_LENGTH_MAX = names.TOPIC_LENGTH_MAX
GROUP_LENGTH_MAX = names.GROUP_LENGTH_MAX
QUEUES_MAX = 4096  # one bound for memory per topic; RocketMQ has none, its own largest is 1024


ATTRIBUTES_REFUSED: Mapping[str, tuple[str, str]] = {
    "cleanup.policy": (
        "DELETE",
        "is not served: replicas have the same bytes, so no message is taken out of the log; keep "
        "the newest value of each key in a table that a consumer fills (docs/limits.md)",
    ),
    "queue.type": ("SimpleCQ", "is not served; leave it out, batches are sent to any topic"),
}
"""RocketMQ's attribute → the one value that is served, and why another one is refused."""


def attribute_error(attributes: Mapping[str, str]) -> str | None:
    """The sentence for an attribute that would silently have no effect; None if all are served."""
    for name, (served, why) in ATTRIBUTES_REFUSED.items():
        value = attributes.get(name, served)
        if value != served:
            return f"{name}={value} {why}"
    return None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One row of the table. Queue numbers count queues of this broker name; perm is a bit set."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = PERM_READ | PERM_WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queues(self) -> int:
        """Queue ids run from 0 to this minus 1."""
        return max(self.read_queues, self.write_queues)

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean, fields in alphabetical order as fastjson writes them.

        Source: docs/spec/store.md 5.3.
        """
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> TopicConfig:
        """Inverse of `to_json`. Raises KeyError, TypeError or ValueError on a wrong shape."""
        return TopicConfig(
            name=str(bean["topicName"]),
            read_queues=int(bean["readQueueNums"]),
            write_queues=int(bean["writeQueueNums"]),
            perm=int(bean["perm"]),
            filter_type=str(bean.get("topicFilterType", "SINGLE_TAG")),
            sys_flag=int(bean.get("topicSysFlag", 0)),
            order=bool(bean.get("order", False)),
            attributes={str(k): str(v) for k, v in (bean.get("attributes") or {}).items()},
        )


@dataclass(frozen=True, slots=True)
class DataVersion:
    """How often a table changed; `timestamp` is the store time of the last change, in ms."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0

    def next(self, timestamp: int) -> DataVersion:
        """The version after one more change. `timestamp`: store time, ms."""
        return replace(self, counter=self.counter + 1, timestamp=timestamp)

    def to_json(self) -> dict[str, int]:
        """RocketMQ's DataVersion."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> DataVersion:
        """Read RocketMQ's DataVersion. Raises KeyError, ValueError or TypeError for other
        objects.
        """
        return DataVersion(
            int(bean["counter"]), int(bean["timestamp"]), int(bean.get("stateVersion", 0))
        )


class TopicTable:
    """Name → `TopicConfig`: built-in rows, changed only by `put` and `delete` from the log."""

    def __init__(self, built_in: Iterator[TopicConfig] | tuple[TopicConfig, ...] = ()) -> None:
        self._built_in = {config.name: config for config in built_in}
        self._rows = dict(self._built_in)
        self.version = DataVersion()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(self._rows.values())

    @property
    def made(self) -> int:
        """How many are there beside the built-in ones."""
        return len(self._rows) - len(self._built_in)

    def get(self, name: str) -> TopicConfig | None:
        """The topic's settings; None for an unknown topic."""
        return self._rows.get(name)

    def is_built_in(self, name: str) -> bool:
        """True for a topic that every broker has."""
        return name in self._built_in

    def replay_put(self, config: TopicConfig, timestamp: int) -> None:
        """Create or replace a topic. `timestamp`: store time, ms."""
        self._rows[config.name] = config
        self.version = self.version.next(timestamp)

    def replay_deletion(self, name: str, timestamp: int) -> None:
        """Remove a row; a built-in topic gets its built-in row again, in its place."""
        if name in self._built_in:
            self._rows[name] = self._built_in[name]
        else:
            self._rows.pop(name, None)
        self.version = self.version.next(timestamp)

    def logged(self) -> list[TopicConfig]:
        """Rows that differ from the built-in ones, which a checkpoint must keep."""
        return [row for row in self._rows.values() if self._built_in.get(row.name) != row]

    def restore(self, rows: list[TopicConfig], version: DataVersion) -> None:
        """Replace the table by a checkpoint's rows over the built-in ones."""
        self._rows = {**self._built_in, **{row.name: row for row in rows}}
        self.version = version

    def plan_auto_create(
        self, topic: str, default_topic: str, client_queues: int
    ) -> TopicConfig | None:
        """The row that a send to unknown `topic` creates, or None when it must not.

        Source: docs/spec/remoting.md 4.2.

        Needs `default_topic` with the inherit bit; takes the smaller queue number of the client's
        wish and that topic's, and its perm without the inherit bit. Topics of a group, which no
        administrator has to create, are made without it, too, with one queue.
        """
        parent = self._rows.get(default_topic)
        if parent is None or not parent.perm & PERM_INHERIT:
            if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                return TopicConfig(topic, 1, 1)
            return None
        queues = max(min(client_queues, parent.write_queues), 1)
        return TopicConfig(
            topic, queues, queues, parent.perm & ~PERM_INHERIT, parent.filter_type, parent.sys_flag
        )


def built_in_topics(cluster_name: str, broker_name: str) -> tuple[TopicConfig, ...]:
    """Rows every broker has without a record in the log (docs/spec/store.md 5.4)."""
    inherit = PERM_READ | PERM_WRITE | PERM_INHERIT
    rows = (
        ("SELF_TEST_TOPIC", 1, 6),
        (DEFAULT_TOPIC, 8, inherit),
        ("BenchmarkTest", 1024, 6),
        (cluster_name, 16, inherit),
        (broker_name, 1, inherit),
        ("OFFSET_MOVED_EVENT", 1, 6),
        ("SCHEDULE_TOPIC_XXXX", 18, 6),
        (f"{cluster_name}_REPLY_TOPIC", 1, 6),
        (f"rmq_sys_REVIVE_LOG_{cluster_name}", 8, 6),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 1, 6),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 6),
        ("rmq_sys_wheel_timer", 1, 6),
    )
    return tuple(TopicConfig(name, queues, queues, perm) for name, queues, perm in rows)


def topic_name_error(name: str) -> str | None:
    """Why `name` is no legal topic, as a sentence, or None when it is."""
    if not name:
        return "the topic is empty; name one"
    if len(name) > TOPIC_LENGTH_MAX:
        return (
            f"the topic has {len(name)} characters and {TOPIC_LENGTH_MAX} is the limit; shorten it"
        )
    if not names.LEGAL.fullmatch(name):
        return f"the topic {name!r} has other characters than % | - _ 0-9 A-Z a-z; use these"
    return None


def group_name_error(name: str) -> str | None:
    """Why `name` is no legal consumer or producer group, as a sentence, or None when it is."""
    if not name:
        return "the group is empty; name one"
    if len(name) > GROUP_LENGTH_MAX:
        return (
            f"the group has {len(name)} characters and {GROUP_LENGTH_MAX} is the limit; shorten it"
        )
    if not names.LEGAL.fullmatch(name):
        return f"the group {name!r} has other characters than % | - _ 0-9 A-Z a-z; use these"
    return None
