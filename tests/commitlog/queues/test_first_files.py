"""First files of queues are made apart from the queues, and taken whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from commitlog.files.system import OsFile, OsFileSystem
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.first_files import FirstFiles


class Files(OsFileSystem):
    """Has room for so many files."""

    room = 1_000

    def create(
        self, path: Path, size: int, *, staging: Path, zeros: bool = False, durable: bool = True
    ) -> OsFile:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1
        return super().create(path, size, staging=staging, zeros=zeros, durable=durable)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def queues(tmp_path: Path, files: Files) -> Iterator[ConsumeQueues]:
    queues = ConsumeQueues(files, tmp_path, staging=tmp_path / "staging")
    yield queues
    queues.close()


def test_queues_get_their_files_at_once_on_the_owners_thread(
    queues: ConsumeQueues, files: Files, tmp_path: Path
) -> None:
    two = [queues.queue(b"T", 0), queues.queue(b"T", 1)]
    task = FirstFiles(two)
    task.run()
    task.run()
    assert not any(queue.log.file_starts for queue in two), "not before they are taken"
    task.adopt()
    task.close()
    made = files.room
    for queue in two:
        assert queue.append(0, 0, 100, 7)
        assert queue.read(0, 9)[0].tags_code == 7
    assert files.room == made, "the writer has made none"
    for work in queues.capture():
        work.run()
    # Their folders are synced with them: the names are new.
    again = ConsumeQueues(files, tmp_path, staging=tmp_path / "staging", writable=False)
    assert again.keep({"consumequeue/T/0": 1, "consumequeue/T/1": 1})
    again.close()


def test_without_room_those_that_were_made_are_taken(queues: ConsumeQueues, files: Files) -> None:
    files.room = 1
    two = [queues.queue(b"T", 0), queues.queue(b"T", 1)]
    task = FirstFiles(two)
    task.run()
    with pytest.raises(OSError, match="No space left"):
        task.adopt()
    assert [queue.log.file_starts for queue in two] == [[0], []]
    files.room = 1
    again = FirstFiles(two[1:])
    again.run()
    again.adopt()
    assert two[1].log.file_starts == [0]


def test_what_is_not_taken_is_closed_and_prevented(queues: ConsumeQueues, files: Files) -> None:
    task = FirstFiles([queues.queue(b"T", 0)])
    task.close()
    task.run()
    assert files.room == 1_000, "too late to begin"


def test_a_queue_whose_first_file_has_no_entry_is_empty_after_a_crash(
    queues: ConsumeQueues, tmp_path: Path, files: Files
) -> None:
    queues.queue(b"T", 0).append(0, 0, 100, 7)
    task = FirstFiles([queues.queue(b"T", 1)])
    task.run()
    task.adopt()
    again = ConsumeQueues(files, tmp_path, staging=tmp_path / "staging")
    assert again.keep({"consumequeue/T/0": 1})
    empty = again.queue(b"T", 1)
    assert (empty.min_offset, empty.max_offset) == (0, 0)
    assert empty.append(0, 100, 50, 8)
    again.close()
