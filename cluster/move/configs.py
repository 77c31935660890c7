"""`config/*.json` of a RocketMQ store ⇄ changes of our state (docs/spec/store.md 5.3, 5.4)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from cluster.core.internal_topics import (
    DelaysPassed,
    GroupsChanged,
    OffsetsCommitted,
    StateChange,
    TopicsChanged,
)
from cluster.core.topics import TopicConfig, topic_name_error
from cluster.move.timer_check import read_timer_check
from commitlog.files.system import FileSystem
from commitlog.store.config_json import parse_config
from commitlog.store.config_shapes import (
    read_consumer_offsets,
    read_delay_offsets,
    read_groups,
    read_topics,
)

#: Written by every broker for itself; ours has its own.
_BROKERS_OWN = frozenset({"TBW102", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"})
_PART_SIZE = 200  # topics or groups in one entry; keeps entries far below the message limit


@dataclass(frozen=True, slots=True)
class Configs:
    """The contents of a store's configuration files; empty for a missing file."""

    topics: tuple[TopicConfig, ...] = ()
    groups: tuple[dict[str, object], ...] = ()
    offsets: tuple[OffsetsCommitted, ...] = ()
    delays: DelaysPassed | None = None
    notes: tuple[str, ...] = ()

    def changes(self, queues: dict[tuple[str, int], int]) -> list[StateChange]:
        """As entries; topics that only the log knows (`queues`) get as many queues as they use."""
        known = {row.name for row in self.topics}
        missing: dict[str, int] = {}
        for topic, queue_id in queues:
            if topic not in known and not topic_name_error(topic):
                missing[topic] = max(missing.get(topic, 0), queue_id + 1)
        rows = [*self.topics, *(TopicConfig(name, n, n) for name, n in sorted(missing.items()))]
        changes: list[StateChange] = [
            TopicsChanged(put=tuple(rows[at : at + _PART_SIZE]))
            for at in range(0, len(rows), _PART_SIZE)
        ]
        changes += [
            GroupsChanged(put=tuple(self.groups[at : at + _PART_SIZE]))
            for at in range(0, len(self.groups), _PART_SIZE)
        ]
        changes += self.offsets
        if self.delays is not None:
            changes.append(self.delays)
        return changes


def read_configs(files: FileSystem, root: Path | None) -> Configs:
    """Read the files. Raises StoreDamaged for one that RocketMQ did not write."""
    if root is None:
        return Configs()
    folder = root / "config"
    notes = []
    topics: tuple[TopicConfig, ...] = ()
    groups: tuple[dict[str, object], ...] = ()
    if (data := _load(files, folder / "topics.json")) is not None:
        topics = tuple(
            TopicConfig(
                row.name,
                row.read_queues,
                row.write_queues,
                row.permission,
                row.filter_type,
                row.sys_flag,
                row.is_ordered,
                row.attributes,
            )
            for row in read_topics(data)[0]
            if row.name not in _BROKERS_OWN and not row.name.startswith("rmq_sys_")
        )
    if (data := _load(files, folder / "subscriptionGroup.json")) is not None:
        groups = tuple(row.to_dict() for row in read_groups(data)[0])
    offsets = _offsets(files, folder)
    if not topics and files.is_dir(folder / "rocksdb"):
        notes.append("topics and groups are in RocksDB; export them with mqadmin first")
    return Configs(topics, groups, offsets, _delays(files, folder), tuple(notes))


def _offsets(files: FileSystem, folder: Path) -> tuple[OffsetsCommitted, ...]:
    data = _load(files, folder / "consumerOffset.json")
    if data is None:
        return ()
    by_group: dict[str, dict[str, dict[int, int]]] = defaultdict(dict)
    for (topic, group), queues in read_consumer_offsets(data)[0].items():
        by_group[group][topic] = dict(queues)
    return tuple(OffsetsCommitted(group, topics) for group, topics in sorted(by_group.items()))


def _delays(files: FileSystem, folder: Path) -> DelaysPassed | None:
    """How far the source has delivered its delayed messages and timers.

    Source: docs/spec/store.md 5.4, 7.2.
    """
    data = _load(files, folder / "delayOffset.json")
    levels = {} if data is None else read_delay_offsets(data)[0]
    timers_ms = read_timer_check(folder, files)
    return DelaysPassed(levels, timers_ms) if levels or timers_ms else None


def _load(files: FileSystem, path: Path) -> dict[str, object] | None:
    """The contents of the file or of its .bak; both stay as they are."""
    for candidate in (path, path.with_name(path.name + ".bak")):
        if files.exists(candidate) and (data := files.read(candidate)):
            return parse_config(data, str(candidate))
    return None
