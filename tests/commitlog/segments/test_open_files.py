"""Very many queues hold few descriptors, and what was closed while dirty is synced all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES, OsFile
from commitlog.queues import consume_queues
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.queue_entry import ENTRY

QUEUES = 200


def _descriptors(root: Path) -> int:
    links = (Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    return sum(link.exists() and str(link.resolve()).startswith(str(root)) for link in links)


def test_descriptors_are_bounded_and_everything_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_queues, "OPEN_FILES_MAX", 20)
    queues = ConsumeQueues(
        OS_FILES, tmp_path / "s", staging=tmp_path / "s" / "staging", queue_file_size=400
    )
    for number in range(QUEUES):
        queue = queues.queue(b"t%d" % (number // 4), number % 4)
        queue.append_run(ENTRY.pack(number * 100, 100, 0), 1, number * 100 + 100)
    assert _descriptors(tmp_path) <= 21
    synced = []
    monkeypatch.setattr(OsFile, "datasync", lambda file: synced.append(file.path))
    for task in queues.capture():
        task.run()
    assert len(set(synced)) == QUEUES
    assert _descriptors(tmp_path) <= 21
    assert not any(queue.dirty for queue in queues)
    for number in range(QUEUES):
        (entry,) = queues.queue(b"t%d" % (number // 4), number % 4).read(0, 1)
        assert entry.physical_offset == number * 100
    assert _descriptors(tmp_path) <= 21
    queues.close()
    assert _descriptors(tmp_path) == 0


def test_a_removed_queue_needs_no_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_queues, "OPEN_FILES_MAX", 1)
    queues = ConsumeQueues(
        OS_FILES, tmp_path / "s", staging=tmp_path / "s" / "staging", queue_file_size=400
    )
    for number in range(3):
        queues.queue(b"t%d" % number, 0).append_run(ENTRY.pack(0, 100, 0), 1, 100)
    tasks = queues.capture()
    queues.queue(b"t0", 0).remove()
    for task in tasks:
        task.run()
    queues.close()
