"""What very many queues cost: operations are counted, so that no machine is too slow or too fast.

A start looks at every queue once: its folder, its last entry and the bytes behind it. Nothing that
is done again and again (a sync, a mark) looks at a queue that nobody wrote to.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from commitlog.config import StoreConfig
from commitlog.dispatch.derived import DerivedFiles
from commitlog.dispatch.dispatch_mark import read_mark
from commitlog.files.system import OsFile, OsFileSystem
from commitlog.queues import consume_queues
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.consume_queues import ConsumeQueues

TOPICS, QUEUES = 60, 4
ALL = TOPICS * QUEUES
FILE_SIZE = 6_000_000  # as in RocketMQ: a start must not read what is not there
CONFIG = StoreConfig(consume_queue_file_size=FILE_SIZE, index_enabled=False)


class CountingFile(OsFile):
    """Counts what is asked of the disk, in the `Counter` of its file system."""

    __slots__ = ()
    asked: ClassVar[Counter[str]] = Counter()

    def pread(self, size: int, position: int) -> bytes:
        self.asked["reads"] += 1
        self.asked["bytes"] += size
        return super().pread(size, position)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self.asked["writes"] += 1
        super().pwrite(data, position)

    def next_data(self, position: int) -> tuple[int, int]:
        self.asked["seeks"] += 1
        return super().next_data(position)

    def datasync(self) -> None:
        self.asked["syncs"] += 1
        super().datasync()


class CountingFiles(OsFileSystem):
    """`OsFileSystem` that counts opens, lists, removals and syncs of folders too."""

    def __init__(self) -> None:
        self.asked = CountingFile.asked = Counter()

    def open(self, path: Path, *, writable: bool = True) -> OsFile:
        self.asked["opens"] += 1
        fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
        return CountingFile(path, fd, os.fstat(fd).st_size)

    def file_sizes(self, path: Path) -> dict[str, int]:
        self.asked["lists"] += 1
        return super().file_sizes(path)

    def remove(self, path: Path) -> None:
        self.asked["removals"] += 1
        super().remove(path)

    def sync_dir(self, path: Path) -> None:
        self.asked["folder syncs"] += 1
        super().sync_dir(path)


def opened(root: Path, files: CountingFiles | None = None) -> DerivedFiles:
    return DerivedFiles(
        files or CountingFiles(), root, CONFIG, staging=root / "staging", entries=True
    )


def put(derived: DerivedFiles, topic: int, queue_id: int, position: int, size: int = 100) -> None:
    """One entry to the end of a queue, as the dispatcher puts it; it ends at `position + size`."""
    queue = derived.queues.queue(b"t%03d" % topic, queue_id)
    assert queue.append(queue.max_offset, position, size, 0)
    derived.dispatcher.position = position + size


def fill(derived: DerivedFiles, position: int = 0) -> int:
    """One message into every queue; the position behind them."""
    for number in range(ALL):
        put(derived, number // QUEUES, number % QUEUES, position + number * 100)
    return position + ALL * 100


def save(derived: DerivedFiles) -> None:
    task = derived.begin_sync()
    task.run()
    derived.finish_sync(task)


def store(root: Path) -> int:
    """A store of ALL queues with a message each, marked; the end of its log."""
    derived = opened(root)
    derived.recover(0, 0)
    end = fill(derived)
    save(derived)
    derived.close()
    return end


def test_a_start_reads_what_is_there_and_no_more(tmp_path: Path) -> None:
    end = store(tmp_path)
    files = CountingFiles()
    derived = opened(tmp_path, files)
    assert derived.recover(0, end) == end
    asked = files.asked
    assert asked["lists"] == asked["opens"] == asked["reads"] == ALL, asked
    assert asked["bytes"] <= ALL * 4096
    assert asked["seeks"] <= 2 * ALL
    assert not asked["writes"] + asked["syncs"] + asked["removals"] + asked["folder syncs"], asked
    assert not derived.pending, "the mark on disk says it all"
    for queue in derived.queues:
        assert (queue.min_offset, queue.max_offset) == (0, 1)
    derived.close()


def test_after_a_kill_unmarked_queues_are_used_again_and_not_made_anew(tmp_path: Path) -> None:
    """The mark knows nothing of them: as after a kill within the first seconds."""
    derived = opened(tmp_path)
    derived.recover(0, 0)
    end = fill(derived)
    derived.close()
    files = CountingFiles()
    derived = opened(tmp_path, files)
    assert derived.recover(0, end) == 0
    asked = files.asked
    assert not asked["removals"] + asked["syncs"] + asked["folder syncs"], asked
    assert asked["bytes"] <= ALL * 4096
    assert asked["writes"] <= ALL
    assert not any(derived.queues.counts().values())
    assert all(queue.end_position == 0 for queue in derived.queues)
    assert fill(derived) == end
    assert not asked["removals"]
    save(derived)
    assert asked["syncs"] == ALL
    # consumequeue/ and the store's root, each topic, each queue; staging and root for the mark.
    assert asked["folder syncs"] <= ALL + TOPICS + 2 + 2 + 2
    derived.close()
    again = opened(tmp_path)
    assert again.recover(0, end) == end
    assert all(queue.max_offset == 1 for queue in again.queues)
    again.close()


@pytest.mark.parametrize("later", [1, 2, 300])
def test_what_is_not_vouched_for_is_zeroed(tmp_path: Path, later: int) -> None:
    """Entries behind the mark, also beyond the first page: none of them may be taken for one."""
    end = store(tmp_path)
    derived = opened(tmp_path)
    derived.recover(0, end)
    for number in range(later):
        put(derived, 7, 2, end + number * 100)
    derived.close()
    again = opened(tmp_path)
    assert again.recover(0, end + later * 100) == end
    queue = again.queues.find("t007", 2)
    assert isinstance(queue, ConsumeQueue)
    assert queue.max_offset == 1
    assert not any(queue.log.pread(FILE_SIZE - 20, 20))
    assert queue.dirty, "the zeros are synced with what comes"
    again.close()


def test_a_sync_costs_time_of_the_queues_that_changed(tmp_path: Path) -> None:
    end = store(tmp_path)
    files = CountingFiles()
    derived = opened(tmp_path, files)
    derived.recover(0, end)
    files.asked.clear()
    put(derived, 3, 1, end)
    put(derived, 3, 1, end + 100)
    looked: list[str] = []
    for queue in derived.queues:
        log = queue.log
        take = log.take_dirty

        def noted(take: Callable[[], object] = take, name: str = str(log.folder)) -> object:
            looked.append(name)
            return take()

        log.take_dirty = noted  # type: ignore[method-assign, assignment]
    save(derived)
    assert [name[-6:] for name in looked] == ["t003/1"]
    assert files.asked["syncs"] == 1
    mark = read_mark(files, tmp_path)
    assert mark is not None
    assert mark.queues["consumequeue/t003/1"] == 3
    assert len(mark.queues) == ALL
    assert sum(mark.queues.values()) == ALL + 2
    looked.clear()
    save(derived)
    assert not looked
    derived.close()


def test_counts_follow_every_kind_of_change(tmp_path: Path) -> None:
    """They are kept, not counted anew: appended, cut, removed and forgotten queues all tell."""
    end = store(tmp_path)
    derived = opened(tmp_path)
    derived.recover(0, end)
    for number in range(3):
        put(derived, 5, 0, end + number * 100)
    save(derived)

    def told() -> dict[str, int]:
        return {name: n for name, n in derived.queues.counts().items() if n}

    def counted() -> dict[str, int]:
        queues = list(derived.queues)
        return {f"consumequeue/{q.topic}/{q.queue_id}": q.entry_end for q in queues if q.entry_end}

    assert told()["consumequeue/t005/0"] == 4
    derived.cut(end + 100)
    assert told() == counted()
    assert told()["consumequeue/t005/0"] == 2
    derived.remove_topic("t006")
    assert told() == counted()
    assert not any("t006" in name for name in derived.queues.counts())
    derived.remove()
    assert told() == counted() == {}
    derived.close()


def test_building_anew_keeps_the_files(tmp_path: Path) -> None:
    """Without a mark everything is dispatched again, into the files that are there."""
    end = store(tmp_path)
    (tmp_path / "dispatched").unlink()
    files = CountingFiles()
    derived = opened(tmp_path, files)
    assert derived.recover(0, end) == 0
    assert not files.asked["removals"] + files.asked["syncs"]
    assert all(queue.max_offset == 0 for queue in derived.queues)
    opens = files.asked["opens"]
    derived.remove()
    assert derived.recover(0, end) == 0
    assert files.asked["opens"] <= opens + ALL, "emptied once, however often it is said"
    assert fill(derived) == end
    derived.close()


def test_descriptors_go_back_to_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files pinned for a while may exceed it; afterwards every file opened closes two."""
    monkeypatch.setattr("commitlog.queues.consume_queues.OPEN_FILES_MAX", 10)
    queues = ConsumeQueues(CountingFiles(), tmp_path, staging=tmp_path / "x", queue_file_size=400)
    pinned = []
    for number in range(40):
        queue = queues.queue(b"t%d" % number, 0)
        queue.append(0, number * 100, 100, 0)
        (segment,) = queue.log.take_dirty()[0]
        segment.pin()
        pinned.append(segment)
    for segment in pinned:
        segment.unpin()
    assert sum(segment.is_open for segment in pinned) == 40
    for number in range(40, 80):
        queues.queue(b"t%d" % number, 0).append(0, number * 100, 100, 0)
    every = [segment for queue in queues for segment in queue.log.take_dirty()[0]]
    assert sum(segment.is_open for segment in [*pinned, *every]) <= 11
    queues.close()


def test_very_many_changed_queues_are_synced_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync looks at each queue that changed in one go: parts before leave it few, and each is
    synced once."""
    monkeypatch.setattr(consume_queues, "PART_COUNT", 50)
    files = CountingFiles()
    derived = opened(tmp_path, files)
    derived.recover(0, 0)
    end = fill(derived)
    files.asked.clear()
    parts = list(iter(derived.begin_part, None))
    assert len(parts) == 3, "with less than twice as many left, the sync does the rest"
    for part in parts:
        part()
    assert files.asked["syncs"] == 150
    put(derived, 0, 0, end)
    task = derived.begin_sync()
    assert files.asked["syncs"] == 150, "nothing of it is work of the loop"
    task.run()
    derived.finish_sync(task)
    written_again = int(files.asked["syncs"] - ALL)
    assert written_again in (0, 1), "queue 0 of topic 0, when a part had it before"
    derived.close()
    again = opened(tmp_path)
    assert again.recover(0, end + 100) == end + 100
    assert sum(queue.max_offset for queue in again.queues) == ALL + 1
    again.close()
