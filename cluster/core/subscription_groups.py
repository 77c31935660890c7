"""Settings of consumer groups, as RocketMQ's SubscriptionGroupConfig (docs/spec/store.md 5.4).

A group is created by its first heartbeat through a log record; the bean is kept whole, so fields
this version gives no meaning to survive a round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cluster.core.topics import DataVersion

BUILT_IN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


def new_group(name: str) -> dict[str, Any]:
    """RocketMQ's defaults, fields in alphabetical order."""
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": name,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


class GroupTable:
    """Group name → bean: built-in rows, changed only by records of the log."""

    def __init__(self) -> None:
        self._rows: dict[str, Mapping[str, Any]] = {n: new_group(n) for n in BUILT_IN_GROUPS}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.version = DataVersion()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows.values())

    def get(self, name: str) -> Mapping[str, Any] | None:
        """The group's settings; None for an unknown group."""
        return self._rows.get(name)

    def replay(
        self,
        put: Iterable[Mapping[str, Any]],
        delete: Iterable[str],
        forbid: Mapping[str, Mapping[str, int]],
        timestamp: int,
    ) -> None:
        """One record of the log. `timestamp`: store time, ms."""
        for bean in put:
            self._put(bean, timestamp)
        for name in delete:
            self._delete(name, timestamp)
        self._forbid(forbid, timestamp)

    def _put(self, bean: Mapping[str, Any], timestamp: int) -> None:
        self._rows[str(bean["groupName"])] = dict(bean)
        self.version = self.version.next(timestamp)

    def forbidden(self, group: str, topic: str) -> int:
        """Bits of code 353; bit 0: the group may not pull the topic."""
        return self._forbidden.get(group, {}).get(topic, 0)

    def all_forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Group → topic → bits, of those that are not 0."""
        return self._forbidden

    def _forbid(self, changes: Mapping[str, Mapping[str, int]], timestamp: int) -> None:
        """Bits of code 353: group → topic → bits, 0 lifts a ban."""
        for group, topics in changes.items():
            rows = {**self._forbidden.get(group, {}), **topics}
            rows = {topic: bits for topic, bits in rows.items() if bits}
            if rows:
                self._forbidden[group] = rows
            else:
                self._forbidden.pop(group, None)
            self.version = self.version.next(timestamp)

    def _delete(self, name: str, timestamp: int) -> None:
        """Settings and bans go; a built-in group is as new, in its place."""
        self._forbidden.pop(name, None)
        if name in BUILT_IN_GROUPS:
            self._rows[name] = new_group(name)
        else:
            self._rows.pop(name, None)
        self.version = self.version.next(timestamp)

    def logged(self) -> list[Mapping[str, Any]]:
        """Rows a checkpoint must keep: all but untouched built-in ones."""
        return [
            row
            for name, row in self._rows.items()
            if name not in BUILT_IN_GROUPS or row != new_group(name)
        ]

    def to_json(self) -> dict[str, Any]:
        """The table's part of a checkpoint, with the arguments of `restore` as keys."""
        return {
            "version": self.version.to_json(),
            "rows": self.logged(),
            "forbidden": self.all_forbidden(),
        }

    def restore(
        self,
        rows: list[Mapping[str, Any]],
        version: DataVersion,
        forbidden: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Replace the table by a checkpoint's; built-in groups without a row are as new."""
        self._forbidden = {group: dict(topics) for group, topics in forbidden.items()}
        self._rows = {n: new_group(n) for n in BUILT_IN_GROUPS}
        for row in rows:
            self._rows[str(row["groupName"])] = dict(row)
        self.version = version
