"""How a group gets a topic's messages when it leaves that to the broker: PULL or POP (401).

    (topic, group) ─► mode, and how many members share a queue with its owner (POP)

A fold of the log's records. Who never set anything pulls. Retry topics are always pulled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PULL, POP = "PULL", "POP"
MODES = (PULL, POP)
#: Every member may take from every queue.
SHARED_BY_ALL = -1
ROWS_MAX = 100_000  # pairs of topic and group; each takes some 200 bytes


@dataclass(frozen=True, slots=True)
class RequestMode:
    """One row. `share` (POP): how many members after the owner of a queue take from it, too."""

    topic: str
    group: str
    mode: str = PULL
    share: int = SHARED_BY_ALL

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean, fields in alphabetical order."""
        return {
            "consumerGroup": self.group,
            "mode": self.mode,
            "popShareQueueNum": self.share,
            "topic": self.topic,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> RequestMode:
        """Inverse. Raises KeyError, TypeError or ValueError on a wrong shape."""
        mode = str(bean["mode"])
        if mode not in MODES:
            raise ValueError(f"the mode {mode[:20]} is none of {', '.join(MODES)}")
        share = int(bean.get("popShareQueueNum", SHARED_BY_ALL))
        return RequestMode(str(bean["topic"]), str(bean["consumerGroup"]), mode, share)


class RequestModeTable:
    """All rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], RequestMode] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, topic: str, group: str) -> RequestMode:
        """The mode that was set, or the default."""
        return self._rows.get((topic, group)) or RequestMode(topic, group)

    def replay(self, row: RequestMode) -> None:
        """Set the mode of the row's topic and group."""
        self._rows[row.topic, row.group] = row
        self.changes += 1

    def replay_deletion(self, group: str) -> None:
        """The group is no more."""
        for key in [key for key in self._rows if key[1] == group]:
            del self._rows[key]
            self.changes += 1

    def rows(self) -> list[RequestMode]:
        """Everything, for a checkpoint and for messageRequestMode.json; sorted."""
        return [self._rows[key] for key in sorted(self._rows)]

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Raises KeyError, TypeError or ValueError."""
        self._rows = {}
        for row in map(RequestMode.from_json, rows):
            self.replay(row)

    def to_json(self) -> dict[str, Any]:
        """messageRequestMode.json, and the answer to 402: topic → group → row."""
        topics: dict[str, dict[str, Any]] = {}
        for row in self.rows():
            topics.setdefault(row.topic, {})[row.group] = row.to_json()
        return {"messageRequestModeMap": topics}
