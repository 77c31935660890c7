"""Golden stores of the real Java programs, imported, exported, and compared message by message."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.core.apply import AppliedState
from cluster.move.configs import read_configs
from cluster.move.errors import MoveRefused
from cluster.move.into_log import import_into
from cluster.move.source import INTERNAL_TOPICS, Source
from cluster.move.to_dledger import export_dledger
from cluster.move.to_plain import export_plain
from commitlog.config import StoreConfig
from commitlog.errors import StoreUsageError
from commitlog.files.system import OS_FILES
from commitlog.records.message import Message
from commitlog.store.reader import Item, StoreReader
from commitlog.store.store import MessageStore
from dledger.config import RaftConfig
from dledger.core.types import Index
from dledger.errors import LogDamaged
from dledger.log.java_store import JavaStore
from dledger.log.node_storage import open_node

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
PLAIN = [GOLDEN / "java-store" / "normal", GOLDEN / "java-store" / "normal_running1"]
BROKER = GOLDEN / "dledger" / "dledger-broker" / "store"
FILE_SIZE = 64 << 10
PLAIN_CONFIG = StoreConfig(
    commit_log_file_size=FILE_SIZE,
    consume_queue_file_size=20_000,
    index_slots=100,
    index_entries=200,
    body_size_max=60_000,
)


class Kept(NamedTuple):
    """What must be the same on the other side."""

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    properties: tuple[tuple[str, str], ...]
    flag: int
    sys_flag: int
    born_ms: int
    store_ms: int
    hosts: tuple[str, str]
    reconsume_times: int


def _kept(message: Message) -> Kept:
    properties = {k: v for k, v in message.properties.items() if k != "__CRC32#"}
    return Kept(
        message.topic,
        message.queue_id,
        message.queue_offset,
        bytes(message.body),
        tuple(sorted(properties.items())),
        message.flag,
        message.sys_flag,
        message.born_timestamp_ms,
        message.store_timestamp_ms,
        (str(message.born_host), str(message.store_host)),
        message.reconsume_times,
    )


def _messages(path: Path) -> Iterator[tuple[Item, Message]]:
    with StoreReader(path) as reader:
        for item in reader.items():
            assert item.message is not None
            if item.message.topic not in INTERNAL_TOPICS:
                yield item, item.message
        assert not [finding for finding in reader.findings if finding.damage]


def _raft(folder: Path) -> RaftConfig:
    return RaftConfig(
        node_id="n0",
        cluster_id="c",
        data_dir=folder / "dledger-n0",
        peers={"n0": ("127.0.0.1", 1)},
        data_file_size=FILE_SIZE,
        index_file_size=32 * 1024,
    )


def _import(source: Path, target: Path) -> tuple[Source, int]:
    opened = Source(source)
    survey = opened.survey()
    changes = read_configs(OS_FILES, opened.root).changes(survey.queues)
    return opened, import_into(opened, survey, changes, [_raft(target)], now_ms=1_700_000_000_000)


@pytest.mark.parametrize("store", [*PLAIN, BROKER], ids=lambda path: path.parent.name + path.name)
def test_every_message_is_kept_by_an_import(store: Path, tmp_path: Path) -> None:
    _import(store, tmp_path)
    before = [_kept(message) for _, message in _messages(store)]
    after = [_kept(message) for _, message in _messages(tmp_path)]
    assert before
    assert after == before


@pytest.mark.parametrize("store", [*PLAIN, BROKER], ids=lambda path: path.parent.name + path.name)
def test_the_node_opens_with_every_checksum_verified(store: Path, tmp_path: Path) -> None:
    _, entries = _import(store, tmp_path)
    raft = _raft(tmp_path)
    node = open_node(
        Path(raft.data_dir), cluster_id="c", group=raft.group, node_id="n0", clock=lambda: 0.0
    )
    try:
        log = node.log
        assert log.flushed == log.last.index == log.commit_hint
        found = list(log.entries(log.first_index, log.last.index))
        assert len(found) == entries
        assert all(entry.header.body_crc and entry.header.chain_crc for entry in found)
    finally:
        node.close()


def test_a_dledger_store_keeps_addresses_and_terms(tmp_path: Path) -> None:
    source, _ = _import(BROKER, tmp_path)
    assert source.keeps_addresses
    before = [
        (i.position, i.header.sequence, i.header.epoch) for i, _ in _messages(BROKER) if i.header
    ]
    after = [
        (i.position, i.header.sequence, i.header.epoch) for i, _ in _messages(tmp_path) if i.header
    ]
    assert before == after


def test_topics_groups_and_offsets_arrive_in_the_state(tmp_path: Path) -> None:
    _import(BROKER, tmp_path)
    configs = read_configs(OS_FILES, BROKER)
    state = AppliedState(())
    with StoreReader(tmp_path) as reader:
        raw = [item.raw for item in reader.items()]
    state.apply(b"".join(raw), Index(0))
    assert configs.topics
    assert configs.groups
    assert configs.offsets
    for row in configs.topics:
        assert state.topics.get(row.name) == row
    for change in configs.offsets:
        groups = {group: dict(topics) for group, topics in state.offsets.groups()}
        for topic, queues in change.offsets.items():
            assert dict(groups[change.group][topic]) == dict(queues)


@pytest.mark.parametrize("store", [*PLAIN, BROKER], ids=lambda path: path.parent.name + path.name)
def test_there_and_back_again(store: Path, tmp_path: Path) -> None:
    """Java's store → a node of ours → a plain store: every message by offset, and by key."""
    _import(store, tmp_path / "ours")
    source = Source(tmp_path / "ours")
    export_plain(source, source.survey(), tmp_path / "out", PLAIN_CONFIG)
    before = [_kept(message) for _, message in _messages(store)]
    assert [_kept(message) for _, message in _messages(tmp_path / "out")] == before
    with MessageStore(tmp_path / "out", PLAIN_CONFIG) as opened:
        for kept in before:
            if kept.sys_flag & 0x0C in (0, 8) and not kept.sys_flag & 0x80:
                found = opened.get(kept.topic, kept.queue_id, kept.queue_offset)
                assert bytes(found[0].body) == kept.body
    assert not (tmp_path / "out" / "abort").exists()
    assert (tmp_path / "out" / "config" / "topics.json").exists()


def test_a_node_becomes_a_store_of_dledger_mode(tmp_path: Path) -> None:
    _import(BROKER, tmp_path / "ours")
    source = Source(tmp_path / "ours")
    survey = source.survey()
    export_dledger(source, survey, tmp_path / "out", "n7")
    folder = tmp_path / "out" / "dledger-n7"
    assert {path.name for path in folder.iterdir()} == {"data", "index", "currterm", "checkpoint"}
    java = JavaStore(folder, source.data_file_size)
    try:
        assert java.end().last.index == survey.last
        assert java.state().committed == survey.last
        assert java.state().term == survey.term
    finally:
        java.close()
    before = [_kept(message) for _, message in _messages(BROKER)]
    assert [_kept(message) for _, message in _messages(tmp_path / "out")] == before
    assert (tmp_path / "out" / "consumequeue").is_dir()
    assert (tmp_path / "out" / "config" / "consumerOffset.json").exists()


def test_damage_is_refused_with_its_place_and_nothing_is_written(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(PLAIN[0], store)
    log = min((store / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    first = next(iter(_messages(PLAIN[0])))[0]
    data[first.size + 120] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(MoveRefused, match=f"position {first.size}"):
        Source(store).survey()
    assert not (tmp_path / "ours").exists()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    _import(PLAIN[0], tmp_path / "ours")
    source = Source(tmp_path / "ours")
    survey = source.survey()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "note").write_text("mine")
    with pytest.raises(StoreUsageError, match="not empty"):
        export_plain(source, survey, tmp_path / "out", PLAIN_CONFIG)
    with pytest.raises((StoreUsageError, LogDamaged, Exception), match="formatted already"):
        _import(PLAIN[0], tmp_path / "ours")
    assert (tmp_path / "out" / "note").read_text() == "mine"


def test_a_message_larger_than_the_files_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    source = Source(PLAIN[0])
    survey = source.survey()
    small = RaftConfig(
        node_id="n0",
        cluster_id="c",
        data_dir=tmp_path / "n0",
        peers={"n0": ("127.0.0.1", 1)},
        data_file_size=128,
    )
    with pytest.raises(MoveRefused, match=r"raft\.data_file_size"):
        import_into(source, survey, (), [small], now_ms=0)
    assert not (tmp_path / "n0").exists()
