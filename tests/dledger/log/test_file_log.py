"""Rolling, files made ahead, the tail cache, tasks in other threads, real files."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from commitlog.records.record import HEADER
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, open_node
from dledger.log.recent import PIECES_MAX
from dledger.log.tail_cache import CHUNK_OVERHEAD, UNAPPLIED_TIMES
from tests.dledger.log.crash_files import CrashDisk, CrashFile
from tests.dledger.log.stores import (
    FOLDER,
    IDENTITY,
    Clock,
    body_of,
    copy_all,
    dump,
    fill,
    make,
    mark,
    reopen,
    sync,
)

DATA = FOLDER / "data"


def test_a_file_made_ahead_is_used_when_its_turn_comes() -> None:
    disk = CrashDisk()
    log = make(disk).log
    assert log.begin_prepare() is None  # nothing written yet
    fill(log, 1, size=600)
    task = log.begin_prepare()
    assert task is not None
    assert log.begin_prepare() is None  # once
    task.run()
    assert disk.list(DATA) == [f"{0:020}", f"{1024:020}"]
    before = disk.operations
    fill(log, 1, size=600)
    assert disk.operations == before + 2  # blank, record; slots are gathered: nothing was made
    assert log.position_of(Index(1)) == 1024


def test_a_file_that_nobody_made_ahead_is_made_by_the_append() -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 1, size=600)
    task = log.begin_prepare()
    assert task is not None
    fill(log, 1, size=600)
    task.run()  # late: it was done by the append, and is not done again
    assert disk.list(DATA) == [f"{0:020}", f"{1024:020}"]
    assert dump(log) == dump(reopen(disk).log)


def test_files_made_ahead_and_not_used_stay_at_a_truncation_and_go_at_close() -> None:
    """A file behind a truncation is used again; a full disk may have none for a new one (L5)."""
    disk = CrashDisk()
    node = make(disk)
    fill(node.log, 2, size=400)
    task = node.log.begin_prepare()
    assert task is not None
    task.run()
    node.log.truncate_after(Index(0))
    task.run()
    fill(node.log, 1, size=400)
    assert len(disk.list(DATA)) == 2
    assert node.log.begin_prepare() is None
    node.close()
    assert len(disk.list(DATA)) == 1
    assert reopen(disk).log.last.index == 1


def test_a_helper_thread_and_the_writer_make_one_file(tmp_path: Path) -> None:
    """Whoever comes first makes it, the other one waits."""
    node = make(OS_FILES, tmp_path / "n")
    for number in range(20):
        fill(node.log, 1, size=900)
        task = node.log.begin_prepare()
        if task is None:
            continue
        thread = threading.Thread(target=task.run)
        thread.start()
        fill(node.log, 1, size=900)
        thread.join()
        assert len(list((tmp_path / "n" / "data").iterdir())) in (2 * number + 2, 2 * number + 3)
    assert node.log.last.index == 39
    node.close()


def test_every_dirty_file_is_synced_in_order() -> None:
    """R13: one fdatasync at a roll would miss the old file."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 7, size=500)
    task = log.begin_sync()
    assert task is not None
    assert [file.path.name for file in task.files] == disk.list(DATA)
    task.run()
    log.finish_sync(task)
    disk.crash(keep=0.0)
    assert reopen(disk).log.last.index == 6


def test_one_sync_covers_everything_written_before_it() -> None:
    disk = CrashDisk()
    log = make(disk, identity=replace(IDENTITY, data_file_size=1 << 20)).log
    before = disk.sync_count
    fill(log, 50)
    assert sync(log) == 49
    assert disk.sync_count == before + 1


def test_a_mark_under_way_is_cancelled_by_a_truncation() -> None:
    """It would name an entry that is gone, and the node would refuse to start."""
    for when in ("before", "after"):
        disk = CrashDisk()
        log = make(disk).log
        fill(log, 10)
        sync(log)
        task = log.begin_mark()
        assert task is not None
        if when == "before":
            task.run()
        log.truncate_after(Index(3))
        if when == "after":
            task.run()
        log.finish_mark(task)
        wanted = dump(log)
        disk.crash(keep=0.0)
        assert dump(reopen(disk).log) == wanted
        assert len(wanted) == 4


def test_a_sync_that_a_truncation_overtook_counts_only_what_stayed(tmp_path: Path) -> None:
    node = make(OS_FILES, tmp_path / "n")
    fill(node.log, 6, size=900)
    task = node.log.begin_sync()
    assert task is not None
    node.log.truncate_after(Index(0))
    task.run()
    assert node.log.finish_sync(task) == -1
    fill(node.log, 3, term=2, size=900)
    assert sync(node.log) == 3
    node.close()
    assert reopen(OS_FILES, tmp_path / "n").log.last == (2, 3)


def test_ten_thousand_truncations_leave_nothing_behind(tmp_path: Path) -> None:
    """W12 (fewer on the real disk, for its syncs): no descriptor and no memory stays.

    A truncation keeps the files behind it, so there are as many as the longest log had.
    """
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 11, size=500)
    log.truncate_after(Index(2))
    files = disk.list(DATA)
    for _ in range(10_000 // 8):
        fill(log, 8, size=60)
        for last in range(9, 1, -1):
            log.truncate_after(Index(last))
    assert disk.list(DATA) == files
    assert log.reader.cache.size < 5 * (600 + CHUNK_OVERHEAD)
    node = make(OS_FILES, tmp_path / "n")
    fill(node.log, 5, size=900)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        node.log.truncate_after(Index(-1))
        fill(node.log, 5, size=900)
    assert len(os.listdir("/proc/self/fd")) == before
    node.close()


def test_the_tail_cache_is_bounded() -> None:
    disk = CrashDisk()
    make(disk).close()
    log = reopen(disk, cache_size_max=20_000).log
    for index in range(200):
        fill(log, 1, size=300)
        log.save_commit(Index(index))
        assert log.reader.cache.size <= 20_000
    assert log.reader.cache.find(199) is not None
    assert log.reader.cache.find(100) is None
    assert [entry.header.sequence for entry in log.entries(Index(0), Index(199))] == [*range(200)]


def test_entries_that_are_not_applied_stay_in_the_tail_cache() -> None:
    """They are read once more, when the node is busy; up to a bound of their own."""
    disk = CrashDisk()
    make(disk).close()
    log = reopen(disk, cache_size_max=20_000).log
    log.save_commit(Index(-1))
    fill(log, 100, size=300)
    assert 100_000 < log.reader.cache.size < UNAPPLIED_TIMES * 20_000
    assert log.reader.cache.find(0) is not None
    log.save_commit(Index(79))
    fill(log, 1, size=300)
    assert log.reader.cache.find(79) is None
    assert log.reader.cache.find(80) is not None
    for _ in range(300):
        fill(log, 1, size=300)
        assert log.reader.cache.size <= UNAPPLIED_TIMES * 20_000
    assert log.reader.cache.find(80) is None


def test_a_chunk_larger_than_the_bound_is_not_kept() -> None:
    disk = CrashDisk()
    make(disk).close()
    log = reopen(disk, cache_size_max=200).log
    log.append([bytes(100)] * 50, Term(1))
    assert log.reader.cache.size == 0
    assert log.read_range(Index(0), Index(49), 1 << 20).last == 49


def test_an_empty_cache_finds_nothing() -> None:
    cache = make(CrashDisk()).log.reader.cache
    assert cache.find(0) is None
    assert cache.find_position(0) is None
    cache.cut_after(-1)
    assert cache.size == 0


def test_fresh_ranges_are_the_bytes_that_were_written() -> None:
    """Served without a read and without a copy, from disk or cache the same bytes."""
    disk = CrashDisk()
    node = make(disk)
    node.log.append([body_of(index, 1, 150) for index in range(4)], Term(1))
    fill(node.log, 30, term=2, size=150)
    log = node.log
    cold = reopen(disk, cache_size_max=0).log
    for first in range(34):
        for size_max in (1, 400, 1200, 3000, 1 << 20):
            fresh = log.read_range(Index(first), Index(33), size_max)
            other = cold.read_range(Index(first), Index(33), size_max)
            assert b"".join(fresh.parts) == b"".join(other.parts)
            assert replace(fresh, parts=()) == replace(other, parts=())


def test_a_range_in_many_parts_is_joined() -> None:
    log = make(CrashDisk()).log
    fill(log, 3, size=50)
    assert len(log.read_range(Index(0), Index(2), 1 << 20).parts) == 3
    identity = replace(IDENTITY, data_file_size=1 << 20)
    big = make(CrashDisk(), identity=identity, cache_size_max=1 << 20).log
    fill(big, 100, size=50)
    assert len(big.read_range(Index(0), Index(99), 1 << 20).parts) == 1


def test_a_cold_record_larger_than_a_scan_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dledger.log.cold.SCAN_SIZE", 300)
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 9, size=900)
    fill(log, 9, size=20)
    wanted = dump(log)
    disk.restart()
    assert dump(reopen(disk, cache_size_max=0).log) == wanted
    for name in disk.list(FOLDER / "index"):
        disk.names.pop(FOLDER / "index" / name)
    assert dump(reopen(disk, cache_size_max=0).log) == wanted


def test_whoever_walks_through_old_entries_reads_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that is behind costs a few large reads, not several small ones for each entry."""
    disk = CrashDisk()
    log = make(disk, identity=replace(IDENTITY, data_file_size=1 << 20)).log
    fill(log, 600, size=300)
    log = reopen(disk, cache_size_max=0).log
    reads = 0
    real = CrashFile.pread

    def counted(self: CrashFile, size: int, position: int) -> bytes:
        nonlocal reads
        reads += 1
        return real(self, size, position)

    monkeypatch.setattr(CrashFile, "pread", counted)
    for index in range(0, 600, 3):
        position = log.position_of(Index(index))
        assert log.index_at(position) == index
        assert bytes(log.entry(Index(index)).body) == body_of(index, 1, 300)
    assert reads < 60


def test_pieces_kept_of_the_old_log_are_few_and_go_with_a_truncation() -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 300, size=300)
    log = reopen(disk, cache_size_max=0).log
    for index in range(299, 0, -7):
        assert log.entry(Index(index)).header.sequence == index
        assert len(log.reader.recent) <= PIECES_MAX
    log.truncate_after(Index(100))
    fill(log, 100, term=2, size=299)
    assert log.entry(Index(150)).header.epoch == 2
    assert log.index_at(log.position_of(Index(150))) == 150
    assert dump(log) == dump(reopen(disk).log)


def test_a_body_that_looks_like_a_record_is_not_one() -> None:
    """Positions come from clients; only an address where a record begins has an index."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 2, size=50)
    at = 2 * 98 + 48 + 20
    fake = HEADER.pack(1, 98, 1, 1, at, 0, 0, 0, 50)
    log.append([bytes(20) + fake + bytes(100)], Term(1))
    fill(log, 2)
    for each in (log, reopen(disk, cache_size_max=0).log):
        assert each.index_at(2 * 98) == 2
        with pytest.raises(KeyError):
            each.index_at(at)
        for position in (-1, 1, at - 20, each.end_position, 1 << 40):
            with pytest.raises(KeyError):
                each.index_at(position)


def test_the_commit_hint_survives_and_is_clamped_to_what_is_flushed() -> None:
    """S9: never above the flushed end; R3: it never starts at the log's end by itself."""
    disk, clock = CrashDisk(), Clock()
    make(disk).close()
    log = reopen(disk, clock=clock).log
    assert log.commit_hint == -1
    fill(log, 10)
    sync(log)
    log.save_commit(Index(6))
    clock.now += 10
    mark(log)
    disk.crash(keep=0.0)
    log = reopen(disk, clock=clock).log
    assert (log.commit_hint, log.last.index) == (6, 9)
    fill(log, 2)
    log.save_commit(Index(11))
    clock.now += 10
    mark(log)
    disk.crash(keep=0.0)
    assert reopen(disk).log.commit_hint <= 9


def test_an_idle_log_asks_for_nothing() -> None:
    disk, clock = CrashDisk(), Clock()
    make(disk).close()
    log = reopen(disk, clock=clock).log
    fill(log, 4)
    sync(log)
    log.save_commit(Index(3))
    for _ in range(3):
        clock.now += 5
        mark(log)
    assert log.mark_deadline() is None
    assert log.begin_mark() is None
    assert log.begin_sync() is None


@pytest.mark.parametrize("zeros", [False, True])
def test_on_real_files_with_real_sizes(tmp_path: Path, zeros: bool) -> None:
    identity = Identity("cluster", "group", NodeId("n0"), 1 << 20, 1 << 15)
    folder = tmp_path / "dledger-n0"
    make(OS_FILES, folder, identity).close()
    node = reopen_real(folder, zeros)
    log = node.log
    for batch in range(30):
        bodies = [body_of(batch * 100 + number, 1, 1100) for number in range(100)]
        log.append(bodies, Term(1), stamp_at=100)
    sync(log)
    mark(log)
    assert log.end_position > 3 << 20
    target = make(OS_FILES, tmp_path / "other", identity)
    copy_all(log, target.log, 300_000)
    wanted = dump(log)
    node.close()
    target.close()
    assert dump(reopen_real(folder, zeros).log) == wanted
    for path in sorted((folder / "data").iterdir()):
        assert path.read_bytes() == (tmp_path / "other" / "data" / path.name).read_bytes()
        assert path.stat().st_blocks * 512 >= 1 << 20  # allocated, not sparse (R12)


def reopen_real(folder: Path, zeros: bool) -> NodeStorage:
    return open_node(
        folder,
        cluster_id="cluster",
        group="group",
        node_id="n0",
        clock=time.monotonic,
        prewrite_zeros=zeros,
        cache_size_max=1 << 18,
    )
