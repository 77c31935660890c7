"""`MessageStore` by itself, in the hands of somebody who has not read its documentation."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from commitlog import Message, MessageStore, StoreConfig, StoreError, StoreUsageError
from commitlog.errors import MessageTooLarge, StoreDamaged
from commitlog.records.message import encode_message
from commitlog.records.message_layout import patch_record
from commitlog.store.reader import StoreReader

from .node_process import dledger, hashes

SMALL = StoreConfig(
    commit_log_file_size=1 << 16, body_size_max=1 << 12, index_slots=100, index_entries=400
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topic": ""}, "blank"),
        ({"topic": ".."}, "letters, digits"),
        ({"topic": "../../elsewhere"}, "letters, digits"),
        ({"topic": "a/b"}, "letters, digits"),
        ({"topic": "a\0b"}, "letters, digits"),
        ({"topic": "тема"}, "letters, digits"),
        ({"topic": "t" * 128}, "128 bytes and the limit is 127"),
        ({"queue_id": -1}, "queue id -1"),
        ({"queue_id": 1 << 31}, "outside its field's range"),
        ({"born_timestamp_ms": 1 << 63}, "outside its field's range"),
        ({"body": "text"}, "type str and must be bytes"),
        ({"body": None}, "type NoneType and must be bytes"),
        ({"body": bytes(5000)}, "5000 bytes and the limit is 4096"),
        ({"properties": {"a": "x" * 40_000}}, "the limit is 32767"),
        ({"properties": {"a": "\x02"}}, "separator"),
    ],
)
def test_a_message_that_cannot_be_is_refused_and_nothing_is_written(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with MessageStore(tmp_path / "s", SMALL) as store:
        store.put(Message(topic="t", body=b"before"))
        before = hashes(tmp_path / "s" / "commitlog")
        message = Message(**({"topic": "t", "body": b"x"} | changes))
        for put in (store.put, lambda message: store.put_batch([message, message])):
            with pytest.raises(StoreUsageError, match=said):
                put(message)
        assert hashes(tmp_path / "s" / "commitlog").items() >= before.items()
        assert store.put(Message(topic="t", body=b"after")).queue_offset == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_looking_for_what_is_not_there(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", SMALL) as store:
        store.put(Message(topic="t", body=b"x", properties={"KEYS": "k"}))
        for offset in (-1, 1, 99, 1 << 70):
            assert store.get("t", 0, offset) == []
        assert store.get("nowhere", 0, 0) == []
        assert store.get("t", -1, 0) == []
        assert store.query("t", "nothing") == []
        assert store.query("nowhere", "k") == []
        assert store.query("t", "k", begin_ms=5, end_ms=1) == []
        assert store.queue_bounds("nowhere", 7) == (0, 0)
    with pytest.raises(StoreError, match="closed"):
        store.put(Message(topic="t", body=b"x"))


def test_eight_threads_share_the_queues(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", SMALL) as store:

        def put(worker: int) -> None:
            for number in range(100):
                store.put(Message(topic="t", body=b"%d-%d" % (worker, number), queue_id=number % 3))

        threads = [threading.Thread(target=put, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bodies = set()
        for queue in range(3):
            low, high = store.queue_bounds("t", queue)
            for offset in range(low, high):
                bodies |= {message.body for message in store.get("t", queue, offset, 1)}
        assert bodies == {b"%d-%d" % (w, n) for w in range(8) for n in range(100)}


def test_a_record_whose_topic_is_a_path_never_leaves_the_folder(tmp_path: Path) -> None:
    """Written by somebody else; building queues from it must not write beside them."""
    with MessageStore(tmp_path / "s", SMALL) as store:
        store.put(Message(topic="t", body=b"whole"))
        end = store.put(Message(topic="t", body=b"last"))
    record = bytearray(encode_message(Message(topic="../../out", body=b"evil")))
    patch_record(record, 0, end.position + end.size, 1_700_000_000_000)
    path = next((tmp_path / "s" / "commitlog").iterdir())
    with path.open("r+b") as file:
        file.seek(end.position + end.size)
        file.write(record)
    with StoreReader(tmp_path / "s") as reader:
        assert [item.message.topic for item in reader.items() if item.message] == ["t", "t"]
        assert [finding.position for finding in reader.findings] == [end.position + end.size]
    before = hashes(tmp_path / "s" / "commitlog")
    folder = tmp_path / "rebuilt" / "deep"
    folder.parent.mkdir()
    ended = dledger("inspect", str(tmp_path / "s"), "--rebuild", str(folder), home=tmp_path)
    assert ended.code == 1, ended.text
    assert "cannot name a folder" in ended.text
    assert "Traceback" not in ended.text
    with pytest.raises(StoreDamaged, match="cannot name a folder"):
        MessageStore(tmp_path / "s", SMALL)
    assert hashes(tmp_path / "s" / "commitlog").items() >= before.items()
    assert not list(tmp_path.glob("**/out"))


def test_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", SMALL) as store:
        assert store.put(Message(topic="t", body=bytes(1 << 12))).queue_offset == 0
        with pytest.raises(MessageTooLarge) as raised:
            store.put(Message(topic="t", body=bytes((1 << 12) + 1)))
        assert (raised.value.part, raised.value.size_max) == ("body", 1 << 12)
