"""Settings that the log holds: one value for every node of a group, in place of their files'.

    updateBrokerConfig, config set ─► {"put":{"reserved_hours":"48"},"delete":["audit_days"]}
                                      │ logged, behind a mark of feature level 2
                                      ▼
    each node, also one that starts or joins later: broker.reserved_hours is 48

Only settings of LIVE are ever written. A node reads those that it knows and that fit to its own
(cluster/broker/kernel/live_settings.py); this table keeps what the log says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.core.record_json import text_of, texts

SETTINGS_TOPIC: Final = "rmq_sys_dledger_settings"
LIVE: Final = frozenset(
    {
        *("auto_create_topics", "auto_create_topics_max", "auto_create_groups"),
        *("audit_days", "audit_bytes_max", "reserved_hours", "delete_hours"),
        *("follower_grace_seconds", "disk_full_ratio"),
        *("connections_max", "idle_seconds_max"),
        *("pull_count_max", "pull_bytes_max", "store_replies"),
        *("checkpoint_bytes", "checkpoint_seconds", "export_seconds"),
    }
)
"""Settings of the section `broker` that are read each time they are used."""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Name → text of its value; `delete`: those for which each node's own counts again."""

    put: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The record's body."""
        return {"put": dict(self.put), "delete": [*self.delete]}


def decode_settings(value: Mapping[str, Any]) -> SettingsChanged:
    """Inverse of `to_json`. Raises TypeError and the like."""
    put = {text_of(name): text_of(text) for name, text in value.get("put", {}).items()}
    return SettingsChanged(put, texts(value.get("delete", ())))


class SettingsTable:
    """Name → text, as the log says it."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._watchers: list[Callable[[Mapping[str, str]], None]] = []

    def watch(self, changed: Callable[[Mapping[str, str]], None]) -> None:
        """Have `changed` called with all values behind every change."""
        self._watchers.append(changed)

    def replay(self, change: SettingsChanged) -> None:
        """One record of the log."""
        left = {**self.values, **change.put}
        self.restore({name: left[name] for name in left if name not in change.delete})

    def restore(self, values: Mapping[str, str]) -> None:
        """Take the values of a checkpoint, and call the watchers."""
        self.values = {text_of(name): text_of(text) for name, text in values.items()}
        for changed in self._watchers:
            changed(self.values)
