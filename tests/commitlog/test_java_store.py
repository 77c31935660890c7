"""Stores written by the Java store: opened, everything found, derived files made byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from commitlog.records import sys_flag as flags
from commitlog.records.ids import encode_offset_id
from commitlog.records.message import Message
from commitlog.store.layout import StoreLayout, read_checkpoint
from commitlog.store.reader import StoreReader
from commitlog.store.store import MessageStore

from .golden import JAVA, JAVA_END, SMALL, copy, derived_tree, facts, index_contents

STORES = ["normal", "normal_running1"]


def all_messages(root: Path) -> list[Message]:
    with StoreReader(root) as reader:
        messages = [item.message for item in reader.items() if item.message is not None]
        assert not reader.findings
    return messages


@pytest.mark.parametrize("name", STORES)
def test_every_message_is_found_every_way(tmp_path: Path, name: str) -> None:
    root = copy(JAVA / name, tmp_path / "store")
    messages = all_messages(root)
    assert len(messages) == 130
    with MessageStore(root, SMALL, threads=False) as store:
        assert store.max_position == JAVA_END == int(facts(JAVA / "expected.tsv")["maxPhy"])
        assert not store.damage
        for message in messages:
            position = message.physical_offset
            assert store.get_at(position) == message
            assert store.get_by_id(encode_offset_id(message.store_host, position)) == message
            in_queue = store.get(message.topic, message.queue_id, message.queue_offset, 1)
            if flags.goes_to_queue(message.sys_flag):
                assert in_queue == [message]
            else:
                assert message not in in_queue
            for key in [message.unique_key, *message.keys]:
                if key is not None:
                    hits = store.query(message.topic, key, 64)
                    assert (message in hits) == flags.goes_to_index(message.sys_flag)


@pytest.mark.parametrize("name", STORES)
def test_facts_of_expected_tsv(tmp_path: Path, name: str) -> None:
    expected = facts(JAVA / "expected.tsv")
    root = copy(JAVA / name, tmp_path / "store")
    with MessageStore(root, SMALL, threads=False) as store:
        assert len(store.query("T0", "shared", 64)) == int(expected["query.shared"])
        bounds = (int(expected["min.T0-0"]), int(expected["max.T0-0"]))
        assert store.queue_bounds("T0", 0) == bounds
        for number in range(3):
            status, offset = expected[f"inner.{number}"].split()
            assert status == "PUT_OK"
            batch = store.get("BatchTopic", 0, int(offset), 1)[0]
            assert batch.properties["INNER_BASE"] == offset
            assert batch.properties["INNER_NUM"] == "5"
        for text in expected["batch.msgIds"].split(","):
            message = store.get_by_id(text)
            assert message is not None
            assert (message.topic, message.queue_id) == ("T0", 1)


@pytest.mark.parametrize("name", STORES)
def test_opening_changes_no_derived_file(tmp_path: Path, name: str) -> None:
    root = copy(JAVA / name, tmp_path / "store")
    MessageStore(root, SMALL, threads=False).close()
    assert derived_tree(root) == derived_tree(JAVA / name)
    assert index_contents(root) == index_contents(JAVA / name)
    assert not (root / "abort").exists()
    assert sorted(path.name for path in (root / "commitlog").iterdir()) == [
        f"{start:020d}" for start in (0, 16_384, 32_768)
    ]
    checkpoint = read_checkpoint(OS_FILES, StoreLayout(root))
    assert checkpoint.logical_timestamp_ms == 1795176133366
    assert checkpoint.index_timestamp_ms == 1795176133349


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("unclean", [False, True])
def test_derived_files_are_rebuilt_byte_for_byte(tmp_path: Path, name: str, unclean: bool) -> None:
    root = copy(JAVA / name, tmp_path / "store")
    for kind in ("consumequeue", "batchconsumequeue", "index"):
        for path in sorted((root / kind).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    (root / "checkpoint").unlink()
    if unclean:
        (root / "abort").write_text("1")
    elif (root / "abort").exists():
        (root / "abort").unlink()
    MessageStore(root, SMALL, threads=False).close()
    assert derived_tree(root) == derived_tree(JAVA / name)
    assert index_contents(root) == index_contents(JAVA / name)


def test_puts_go_on_after_the_last_message(tmp_path: Path) -> None:
    root = copy(JAVA / "normal", tmp_path / "store")
    with MessageStore(root, SMALL, threads=False) as store:
        put = store.put(Message(topic="T0", body=b"new", properties={"KEYS": "mine"}))
        assert (put.position, put.queue_offset) == (JAVA_END, 19)
        assert store.query("T0", "mine")[0].body == b"new"
    with MessageStore(root, SMALL, threads=False) as store:
        assert store.get("T0", 0, 19)[0].body == b"new"
    with StoreReader(root) as reader:
        assert len(list(reader.items())) == 131


def test_search_by_time(tmp_path: Path) -> None:
    root = copy(JAVA / "normal", tmp_path / "store")
    with MessageStore(root, SMALL, threads=False) as store:
        messages = store.get("T0", 0, 0, 64)
        times = [message.store_timestamp_ms for message in messages]
        for time_ms in {times[0] - 1, *times, times[-1] + 1}:
            lower = sum(stamp < time_ms for stamp in times)
            upper = max(sum(stamp <= time_ms for stamp in times) - 1, 0)
            assert store.offset_by_time("T0", 0, time_ms) == lower
            assert store.offset_by_time("T0", 0, time_ms, upper=True) == upper
        batch = store.get("BatchTopic", 0, 0, 3)
        assert store.offset_by_time("BatchTopic", 0, batch[1].store_timestamp_ms + 1) in (10, 15)
        assert store.offset_by_time("BatchTopic", 0, 0) == 0


@pytest.mark.parametrize("keys", [1, 4, 5, 7])
def test_keys_of_a_message_that_two_index_files_share(tmp_path: Path, keys: int) -> None:
    """After a crash the younger file goes and is made again, byte for byte."""
    root = tmp_path / "store"
    with MessageStore(root, SMALL, threads=False) as store:
        for number in range(30):
            names = " ".join(f"{number}-{key}" for key in range(keys))
            store.put(Message("T", b"x", {"KEYS": names}))
    whole = index_contents(root)
    (root / "dispatched").unlink()  # as RocketMQ leaves a store
    (root / "abort").write_text("1")
    with MessageStore(root, SMALL, threads=False) as store:
        for number in range(30):
            for key in range(keys):
                assert len(store.query("T", f"{number}-{key}", 64)) == 1, (number, key)
    assert index_contents(root) == whole
