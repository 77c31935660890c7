"""config/*.json in RocketMQ's shape: exports of applied state, for its tools; never read back.

A crash leaves the old or the new file, whole, and the one before as .bak (docs/spec/store.md 5.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.core.apply import AppliedState
from cluster.core.delay.progress import delay_progress
from cluster.core.filter_bits import FilterBits, Registered
from cluster.core.pop.ordered import OrderRow, OrderTable
from cluster.core.topics import DataVersion as CoreVersion
from cluster.core.transactions.halves import CHECK_GROUP
from commitlog.files.system import FileSystem
from commitlog.store.config_json import save_config
from commitlog.store.config_shapes import (
    DataVersion,
    GroupRow,
    TopicRow,
    consumer_offsets_file,
    delay_offsets_file,
    groups_file,
    topics_file,
)
from commitlog.store.layout import StoreLayout


class Exports:
    """Writes the files with changes since the last time; `capture` on the loop, `run` anywhere."""

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        state: AppliedState,
        filters: FilterBits | None = None,
    ) -> None:
        self._files, self._state, self._filters = files, state, filters
        layout = StoreLayout(root)
        self._folder, self._staging = layout.config, layout.staging
        self._written: dict[str, int] = {}

    def capture(self) -> ExportTask:
        """The files that are out of date, as values."""
        state = self._state
        offsets = DataVersion(state.offsets.changes, state.store_ms)
        found: dict[str, Mapping[str, Any]] = {}
        if self._changed("topics.json", state.topics.version.counter):
            rows = [TopicRow.from_dict(row.to_json()) for row in state.topics]
            found["topics.json"] = topics_file(rows, _version(state.topics.version))
        if self._changed("subscriptionGroup.json", state.groups.version.counter):
            groups = [GroupRow.from_dict(bean) for bean in state.groups]
            found["subscriptionGroup.json"] = groups_file(groups, _version(state.groups.version))
        if self._changed("consumerOffset.json", state.offsets.changes + state.halves.changes):
            table = {
                (topic, group): dict(queues)
                for group, topics in state.offsets.groups()
                for topic, queues in topics.items()
            }
            for topic, offset in state.halves.system_offsets().items():
                table[topic, CHECK_GROUP] = {0: offset}
            found["consumerOffset.json"] = consumer_offsets_file(table, offsets)
        delayed = state.delayed
        if self._changed("delayOffset.json", delayed.changes):
            version = DataVersion(delayed.changes, state.store_ms)
            levels = {level: first for level, (first, _) in delay_progress(state).items()}
            found["delayOffset.json"] = delay_offsets_file(levels, version)
        if state.modes.changes and self._changed("messageRequestMode.json", state.modes.changes):
            found["messageRequestMode.json"] = state.modes.to_json()
        ordered = state.pop.ordered
        if ordered.changes and self._changed("consumerOrderInfo.json", ordered.changes):
            found["consumerOrderInfo.json"] = _consumer_order_file(ordered)
        filters = self._filters
        if filters is not None:
            filters.expire(state.store_ms)
            if self._changed("consumerFilter.json", filters.changes):
                found["consumerFilter.json"] = _consumer_filter_file(filters)
        return ExportTask(self._files, self._folder, self._staging, found)

    def again(self, task: ExportTask) -> None:
        """The files of `task` were not written: they are still out of date."""
        for name in task.values:
            del self._written[name]

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
        """Write each file whole; the one before stays as .bak. Raises OSError."""
        if self.values:
            self._files.make_dirs(self._folder)
        for name, value in self.values.items():
            save_config(self._files, self._folder / name, value, staging=self._staging)


def _version(version: CoreVersion) -> DataVersion:
    return DataVersion(version.counter, version.timestamp, version.state_version)


def _consumer_filter_file(filters: FilterBits) -> dict[str, Any]:
    """consumerFilter.json: registered expressions, by topic and group (docs/spec/store.md 5.4)."""
    topics: dict[str, dict[str, Any]] = {}
    for row in filters.rows():
        topics.setdefault(row.topic, {})[row.group] = _filter_bean(row, filters.bloom.m)
    return {
        "filterDataByTopic": {
            topic: {"groupFilterData": groups, "topic": topic} for topic, groups in topics.items()
        }
    }


def _filter_bean(row: Registered, bits: int) -> dict[str, Any]:
    return {
        "bloomFilterData": {"bitNum": bits, "bitPos": list(row.positions)},
        "bornTime": row.born_ms,
        "clientVersion": row.version,
        "consumerGroup": row.group,
        "dead": row.dead_ms != 0,
        "deadTime": row.dead_ms,
        "expression": row.text,
        "expressionType": "SQL92",
        "topic": row.topic,
    }


def _consumer_order_file(table: OrderTable) -> dict[str, Any]:
    """consumerOrderInfo.json: topic@group → queue id → the messages given last, and which of
    them are acknowledged (docs/spec/store.md 5.4).
    """
    topics: dict[str, dict[int, Any]] = {}
    for place, row in table.rows():
        topics.setdefault(f"{place.topic}@{place.group}", {})[place.queue] = _order_bean(row)
    return {"table": topics}


def _order_bean(row: OrderRow) -> dict[str, Any]:
    """`o`: the first offset, then distances from it; `cm`: bit i is set when message i is acked."""
    taken = row.taken
    first, *others = taken.offsets
    bits = sum(1 << i for i, offset in enumerate(taken.offsets) if offset not in row.left)
    return {
        "a": taken.attempt,
        "cm": bits,
        "i": taken.invisible_ms,
        "l": taken.pop_ms,
        "o": [first, *(offset - first for offset in others)],
        "oc": row.counts,
        "ot": row.visible_ms,
        "popTime": taken.pop_ms,
    }
