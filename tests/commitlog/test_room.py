"""Derived files take blocks in steps ahead of the writer; a full disk takes nothing from them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from commitlog.config import StoreConfig
from commitlog.dispatch.derived import DerivedFiles
from commitlog.files import system as files
from commitlog.files.allocation import DERIVED_STEP, DERIVED_STEP_MAX
from commitlog.files.system import OS_FILES, OsFile, is_out_of_space
from commitlog.records.message import Host, Message, encode_message

CONFIG = replace(
    StoreConfig(),
    consume_queue_file_size=20 * 3000,
    index_slots=200,
    index_entries=41,
    consume_queue_ext_enabled=False,
)
HOST = Host("127.0.0.1", 10911)
TOPICS = ("a", "b", "c")


class Log:
    """Records as a log would hold them, one behind the other."""

    def __init__(self) -> None:
        self.data, self.offsets = b"", dict.fromkeys(TOPICS, 0)

    def add(self, count: int) -> bytes:
        """More records, of each topic in turn, with two keys each."""
        begin = len(self.data)
        for number in range(count):
            topic = TOPICS[number % len(TOPICS)]
            message = Message(
                topic=topic,
                body=b"x" * 20,
                properties={"KEYS": f"k{number}", "UNIQ_KEY": f"u{begin}-{number}"},
                queue_offset=self.offsets[topic],
                physical_offset=len(self.data),
                store_timestamp_ms=1_700_000_000_000 + len(self.data),
                born_host=HOST,
                store_host=HOST,
            )
            self.offsets[topic] += 1
            self.data += encode_message(message)
        return self.data[begin:]


def derived(root: Path) -> DerivedFiles:
    made = DerivedFiles(OS_FILES, root, CONFIG, staging=root / "staging", entries=False)
    made.recover(0, 1 << 40)
    return made


def content(found: DerivedFiles) -> dict[str, object]:
    """Everything that queues and index say."""
    queues: dict[str, object] = {
        f"{queue.topic}/{queue.queue_id}": queue.read(0, 1 << 20) for queue in found.queues
    }
    assert found.index is not None
    queues["index"] = [entry for file in found.index.files for entry in file.entries()]
    return queues


class FullDisk:
    """Refuses the allocation with a given number, and everything that would need a block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 1 << 30
        self._real_allocate, self._real_open = os.posix_fallocate, os.open
        monkeypatch.setattr(files.os, "posix_fallocate", self._allocate)
        monkeypatch.setattr(files.os, "open", self._open)

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _allocate(self, descriptor: int, begin: int, size: int) -> None:
        self._spend()
        self._real_allocate(descriptor, begin, size)

    def _open(self, path: str, flags: int, *rest: int) -> int:
        if flags & os.O_CREAT:
            self._spend()
        return self._real_open(path, flags, *rest)


def refusal(step: Callable[[], object]) -> OSError | None:
    try:
        step()
    except OSError as error:
        return error
    return None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_whatever_finds_no_room_the_same_batch_goes_in_later(
    tmp_path: Path, disk: FullDisk
) -> None:
    """Each step of a batch is refused in turn; a mark written meanwhile vouches for no more."""
    log = Log()
    first, second = log.add(9), log.add(60)  # queues grow, two more index files are made
    whole = derived(tmp_path / "whole")
    whole.dispatcher.dispatch(0, [first])
    whole.dispatcher.dispatch(len(first), [second])
    wanted = content(whole)
    whole.close()
    refused, done, number = 0, False, 0
    while not done:
        root = tmp_path / str(number)
        found = derived(root)
        found.dispatcher.dispatch(0, [first])
        before = content(found)
        disk.left = number
        error = refusal(lambda found=found: found.dispatcher.dispatch(len(first), [second]))
        disk.left, done = 1 << 30, error is None
        if error is not None:
            refused += 1
            assert is_out_of_space(error)
            assert not found.dispatcher.is_failed
            assert found.dispatcher.position == len(first)
            assert content(found) == before
            task = found.begin_sync()
            task.run()
            found.finish_sync(task)
            with_mark = DerivedFiles(
                OS_FILES, root, CONFIG, staging=root / "staging", entries=False
            )
            assert with_mark.recover(0, 1 << 40) == len(first), "nothing is built anew"
            assert content(with_mark) == before
            with_mark.close()
            found.dispatcher.dispatch(len(first), [second])
        assert content(found) == wanted
        found.close()
        number += 1
    assert refused >= 5


def test_a_sync_of_the_index_without_room_is_made_up_for(tmp_path: Path, disk: FullDisk) -> None:
    log = Log()
    found = derived(tmp_path / "s")
    found.dispatcher.dispatch(0, [log.add(12)])
    disk.left = 1
    task = found.begin_sync()
    task.sync_queues()
    with pytest.raises(OSError, match="No space left"):
        task.allocate_blocks()
    found.again(task)
    disk.left = 1 << 30
    found.begin_sync().run()
    wanted = content(found)
    assert found.index is not None
    hits = [found.index.query("a", f"k{number}") for number in (0, 3, 6, 9)]
    found.close()
    again = derived(tmp_path / "s")
    assert again.dispatcher.position == len(log.data)
    assert content(again) == wanted
    assert again.index is not None
    assert [again.index.query("a", f"k{number}") for number in (0, 3, 6, 9)] == hits
    assert all(hits)
    again.close()


def test_nothing_is_written_into_a_derived_file_where_it_has_no_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any kind, whenever: so that no write and no sync of one can find the disk full."""
    covered: dict[int, list[tuple[int, int]]] = {}
    real_allocate, real_write = os.posix_fallocate, OsFile.pwrite
    writes: list[Path] = []

    def allocate(descriptor: int, begin: int, size: int) -> None:
        covered.setdefault(os.fstat(descriptor).st_ino, []).append((begin, begin + size))
        real_allocate(descriptor, begin, size)

    def write(self: OsFile, data: files.Buffer, position: int) -> None:
        if self.size:  # 0: a small file that is written aside, as a whole
            ranges = covered.get(os.fstat(self._fd).st_ino, [])
            at, end = position, position + len(data)
            for low, high in sorted(ranges):
                if low <= at < high:
                    at = high
            assert at >= end, f"{self.path} has no blocks from {at} on, below {end}"
            writes.append(self.path)
        real_write(self, data, position)

    monkeypatch.setattr(files.os, "posix_fallocate", allocate)
    monkeypatch.setattr(OsFile, "pwrite", write)
    log, found = Log(), derived(tmp_path / "s")
    for count in (1, 3, 50, 200):
        position = len(log.data)
        found.dispatcher.dispatch(position, [log.add(count)])
        found.begin_sync().run()
    found.cut(len(log.data) // 2)
    found.close()
    kinds = {path.relative_to(tmp_path / "s").parts[0] for path in writes}
    assert kinds == {"consumequeue", "index"}


def test_a_queue_with_one_message_takes_one_block_and_a_long_one_grows_in_steps(
    tmp_path: Path,
) -> None:
    log, found = Log(), derived(tmp_path / "s")
    found.dispatcher.dispatch(0, [log.add(1)])
    path = tmp_path / "s" / "consumequeue" / "a" / "0" / f"{0:020}"
    assert path.stat().st_blocks * 512 == DERIVED_STEP
    found.dispatcher.dispatch(len(log.data), [log.add(3 * 300)])
    taken = path.stat().st_blocks * 512
    assert 301 * 20 <= taken <= 2 * 301 * 20 + DERIVED_STEP
    assert taken < DERIVED_STEP_MAX
    found.close()


def test_a_queue_that_begins_late_without_room_begins_late_with_room(
    tmp_path: Path, disk: FullDisk
) -> None:
    refused = 0
    for number in range(6):
        found = derived(tmp_path / str(number))
        queue = found.queues.queue(b"a", 0)
        disk.left = number
        try:
            queue.append(40, 100, 50, 0)
        except OSError:
            refused += 1
            assert (queue.min_offset, queue.max_offset) == (0, 0)
            disk.left = 1 << 30
            queue.append(40, 100, 50, 0)
        disk.left = 1 << 30
        assert (queue.min_offset, queue.max_offset) == (40, 41)
        assert queue.read(40, 1)[0].physical_offset == 100
        found.close()
    assert refused >= 2
