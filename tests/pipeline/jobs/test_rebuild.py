"""Rebuilt queues and index are the store's own, byte for byte: Java's, ours, a broker's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from commitlog.config import StoreConfig
from commitlog.errors import StoreDamaged, StoreUsageError
from pipeline.jobs import rebuild as module
from pipeline.jobs.rebuild import compare, rebuild
from pipeline.jobs.workers import Processes

from .stores import CONFIG, DLEDGER, GOLDEN, put

JAVA = StoreConfig(
    commit_log_file_size=16384,
    body_size_max=4096,
    consume_queue_file_size=400,
    index_slots=64,
    index_entries=40,
)


def test_of_a_java_broker_in_dledger_mode(tmp_path: Path) -> None:
    made = rebuild(DLEDGER, tmp_path / "new", config=JAVA, workers=Processes(2))
    assert compare(DLEDGER, tmp_path / "new") == []
    assert made.queue_entries > 50
    assert made.index_entries > 100
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["consumequeue", "index"]


def test_of_a_plain_java_store(tmp_path: Path) -> None:
    store = GOLDEN / "java-store" / "normal"
    config = StoreConfig(
        commit_log_file_size=16384,
        body_size_max=4096,
        consume_queue_file_size=400,
        batch_queue_file_size=460,
        index_slots=64,
        index_entries=40,
    )
    rebuild(store, tmp_path / "new", config=config)
    assert compare(store, tmp_path / "new") == []


@pytest.mark.parametrize("piece_bytes", [1 << 12, 1 << 20])
def test_of_our_own_store(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", piece_bytes)
    put(tmp_path / "store", range(700))
    made = rebuild(tmp_path / "store", tmp_path / "new", config=CONFIG)
    assert compare(tmp_path / "store", tmp_path / "new") == []
    assert made.queue_entries == 700


def test_what_differs_is_named(tmp_path: Path) -> None:
    put(tmp_path / "store", range(100))
    rebuild(tmp_path / "store", tmp_path / "new", config=CONFIG)
    queue = tmp_path / "new" / "consumequeue" / "odd" / "1" / ("0" * 20)
    data = bytearray(queue.read_bytes())
    data[7] ^= 1
    queue.write_bytes(data)
    index = min((tmp_path / "new" / "index").iterdir())
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    shutil.rmtree(tmp_path / "new" / "consumequeue" / "even" / "0")
    wrong = compare(tmp_path / "store", tmp_path / "new")
    assert [text.split(" ", 1)[1] for text in wrong] == [
        "is only in one of them",
        "differs",
        "differs",
    ]


def test_what_cannot_be_rebuilt(tmp_path: Path) -> None:
    put(tmp_path / "store", range(10))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(StoreUsageError, match="not empty"):
        rebuild(tmp_path / "store", tmp_path / "full", config=CONFIG)
    log = min((tmp_path / "store" / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[:8] = b"\xff" * 8
    log.write_bytes(data)
    with pytest.raises(StoreDamaged):
        rebuild(tmp_path / "store", tmp_path / "new", config=CONFIG)
