"""config/*.json in RocketMQ's shape: exports of applied state, for its tools; never read back.

A crash leaves the old or the new file, whole, and the one before as .bak (store.md 5.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.core.apply import AppliedState
from cluster.core.topics import DataVersion as CoreVersion
from commitlog.config_json import save_config
from commitlog.config_shapes import (
    DataVersion,
    GroupRow,
    TopicRow,
    consumer_offsets_file,
    groups_file,
    topics_file,
)
from commitlog.files import FileSystem
from commitlog.layout import StoreLayout


class Exports:
    """What changed since the last time is written; `capture` on the loop, `run` anywhere."""

    def __init__(self, files: FileSystem, root: Path, state: AppliedState) -> None:
        self._files, self._state = files, state
        layout = StoreLayout(root)
        self._folder, self._staging = layout.config, layout.staging
        self._written: dict[str, int] = {}

    def capture(self) -> ExportTask:
        """The files that are out of date, as values."""
        state = self._state
        offsets = DataVersion(state.offsets.changes, state.store_ms)
        found: dict[str, Mapping[str, Any]] = {}
        if self._changed("topics.json", state.topics.version.counter):
            rows = [
                TopicRow(
                    row.name,
                    row.read_queues,
                    row.write_queues,
                    row.perm,
                    row.filter_type,
                    row.sys_flag,
                    row.order,
                    row.attributes,
                )
                for row in state.topics
            ]
            found["topics.json"] = topics_file(rows, _version(state.topics.version))
        if self._changed("subscriptionGroup.json", state.groups.version.counter):
            groups = [GroupRow.from_dict(bean) for bean in state.groups]
            found["subscriptionGroup.json"] = groups_file(groups, _version(state.groups.version))
        if self._changed("consumerOffset.json", state.offsets.changes):
            table = {
                (topic, group): dict(queues)
                for group, topics in state.offsets.groups()
                for topic, queues in topics.items()
            }
            found["consumerOffset.json"] = consumer_offsets_file(table, offsets)
        return ExportTask(self._files, self._folder, self._staging, found)

    def _changed(self, name: str, counter: int) -> bool:
        if self._written.get(name) == counter:
            return False
        self._written[name] = counter
        return True


class ExportTask:
    """Writes captured files; raises OSError."""

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        staging: Path,
        values: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._files, self._folder, self._staging = files, folder, staging
        self.values = values

    def run(self) -> None:
        if self.values:
            self._files.make_dirs(self._folder)
        for name, value in self.values.items():
            save_config(self._files, self._folder / name, value, staging=self._staging)


def _version(version: CoreVersion) -> DataVersion:
    return DataVersion(version.counter, version.timestamp, version.state_version)
