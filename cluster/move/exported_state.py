"""Topics, groups and offsets of a source → `config/*.json` of an exported store.

A node of ours has them in its log, so they are applied from it; any other source has the files
already, and they are copied as values.
"""

from __future__ import annotations

from pathlib import Path

from cluster.broker.admin.exports import Exports
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import OWN_TOPICS
from cluster.core.topics import TopicConfig
from cluster.move.source import INTERNAL_TOPICS, Source, Survey
from cluster.move.timer_check import write_timer_check
from commitlog.files.system import FileSystem
from commitlog.store.config_json import parse_config, save_config
from commitlog.store.layout import StoreLayout
from dledger.core.types import Index
from dledger.durable.identity import FILE_NAME as IDENTITY_NAME

_CONFIG_NAMES = (
    "topics.json",
    "subscriptionGroup.json",
    "consumerOffset.json",
    "delayOffset.json",
    "consumerFilter.json",
)
_APPLY_BYTES = 1 << 20


def write_configs(source: Source, survey: Survey, out: Path, files: FileSystem) -> None:
    """Write `<out>/config/`. Raises OSError, StoreDamaged for a file of the source."""
    files.make_dirs(StoreLayout(out).staging)
    if _is_ours(source, files):
        _from_log(source, survey, out, files)
    elif source.root is not None:
        _copied(source.root, out, files)


def _is_ours(source: Source, files: FileSystem) -> bool:
    folder = source.entries_folder
    return folder is not None and files.exists(folder / IDENTITY_NAME)


def _from_log(source: Source, survey: Survey, out: Path, files: FileSystem) -> None:
    state = AppliedState(())
    state.applied = Index(survey.first - 1)
    unit: list[bytes] = []
    size, first = 0, survey.first
    count = 0
    for item, _ in source.items():
        unit.append(item.raw)
        size += item.size
        count += 1
        if size > _APPLY_BYTES:
            state.apply(b"".join(unit), Index(first))
            first, unit, size, count = first + count, [], 0, 0
    if unit:
        state.apply(b"".join(unit), Index(first))
    _add_used_topics(state, survey)
    Exports(files, out, state).capture().run()
    write_timer_check(state, out, files)


def _add_used_topics(state: AppliedState, survey: Survey) -> None:
    """Topics that have messages and no row, such as those built into the broker."""
    missing: dict[str, int] = {}
    for topic, queue_id in survey.queues:
        if state.topics.get(topic) is None and topic not in INTERNAL_TOPICS | OWN_TOPICS:
            missing[topic] = max(missing.get(topic, 0), queue_id + 1)
    for name, queues in sorted(missing.items()):
        state.topics.replay_put(TopicConfig(name, queues, queues), state.store_ms)


def _copied(root: Path, out: Path, files: FileSystem) -> None:
    layout = StoreLayout(out)
    files.make_dirs(layout.config)
    for name in _CONFIG_NAMES:
        path = root / "config" / name
        if files.exists(path) and (data := files.read(path)):
            value = parse_config(data, str(path))
            save_config(files, layout.config / name, value, staging=layout.staging)
