"""Damage is found and told apart from a torn end; caches may be lost (D5, D7, D8, R1, R2, R19)."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from commitlog.errors import StoreDamaged, StoreLayoutError
from commitlog.files.system import OS_FILES
from dledger.core.types import Index, Term
from dledger.durable.truncate_intent import IntentFile
from dledger.errors import LogDamaged
from dledger.log.node_storage import NodeStorage
from tests.dledger.log.crash_files import CrashDisk, CrashFile, PowerCut
from tests.dledger.log.stores import (
    DATA_FILE_SIZE,
    FOLDER,
    Clock,
    body_of,
    dump,
    fill,
    make,
    mark,
    reopen,
    sync,
)

DATA = FOLDER / "data"
INDEX = FOLDER / "index"


def data_file(number: int) -> Path:
    return DATA / f"{number * DATA_FILE_SIZE:020}"


def filled(disk: CrashDisk, count: int = 12, size: int = 200) -> NodeStorage:
    """A node with everything on disk and marked."""
    node = make(disk)
    fill(node.log, count, size=size)
    sync(node.log)
    mark(node.log)
    return node


def log_files(disk: CrashDisk) -> dict[Path, bytes]:
    return {path: disk.read(path) for path in disk.names if path.parent in (DATA, INDEX)}


def place(node: NodeStorage, index: int) -> tuple[Path, int]:
    number, offset = divmod(node.log.position_of(Index(index)), DATA_FILE_SIZE)
    return data_file(number), offset


def lose(disk: CrashDisk, name: str) -> None:
    """Both slots of a small file rot."""
    for slot in (0, 1):
        disk.flip(FOLDER / name, slot * 4096 + 9)


def read_everything(disk: CrashDisk) -> None:
    node = reopen(disk, cache_size_max=0)
    log = node.log
    assert len(list(log.entries(log.first_index, log.last.index))) == 6
    assert log.read_range(Index(0), log.last.index, 1 << 20).last == 5


def test_every_flipped_byte_of_a_marked_log_is_found() -> None:
    """D7, D8, W10: by the start or by the first read; nothing is cut and nothing is served."""
    disk = CrashDisk()
    node = filled(disk, 6)
    end = node.log.end_position
    read_everything(disk)
    for position in range(end):
        number, offset = divmod(position, DATA_FILE_SIZE)
        disk.flip(data_file(number), offset, 1 << (position % 8))
        before = {path: bytes(inode.seen) for path, inode in disk.names.items()}
        with pytest.raises((StoreDamaged, LogDamaged)):
            read_everything(disk)
        for path in (data_file(0), data_file(1)):
            assert disk.read(path) == before[path]
        disk.flip(data_file(number), offset, 1 << (position % 8))
    read_everything(disk)


def test_rot_of_a_cold_entry_is_reported_by_every_read() -> None:
    """W10: a flipped body byte is never served and never sent."""
    disk = CrashDisk()
    node = filled(disk)
    path, offset = place(node, 4)
    log = reopen(disk, cache_size_max=0).log
    disk.flip(path, offset + 60)
    for read in (
        lambda: log.entry(Index(4)),
        lambda: list(log.entries(Index(2), Index(6))),
        lambda: log.read_range(Index(4), Index(4), 1 << 20),
    ):
        with pytest.raises(StoreDamaged, match="body of record 4"):
            read()
    before = log.read_range(Index(0), Index(11), 1 << 20)
    assert before.last == 3  # what is whole is still sent, up to the damage
    assert bytes(log.entry(Index(5)).body) == body_of(5, 1, 200)


def test_damage_at_the_mark_refuses_to_start_and_keeps_everything() -> None:
    """D8, R1: valid records may or may not follow; it is not the end of the log."""
    for count in (12, 13):
        disk = CrashDisk()
        node = filled(disk)
        fill(node.log, count - 12)
        sync(node.log)
        path, offset = place(node, 11)
        disk.flip(path, offset + 60)
        before = disk.read(path)
        with pytest.raises(LogDamaged, match="entry 11"):
            reopen(disk)
        assert disk.read(path) == before


def test_above_the_mark_an_invalid_record_is_a_torn_tail_whatever_follows() -> None:
    """R1: write-back out of order leaves valid records behind a hole; the log goes on before it."""
    disk = CrashDisk()
    node = filled(disk, 5)
    fill(node.log, 6, size=200)
    path, offset = place(node, 7)
    disk.flip(path, offset + 60)
    disk.restart()
    node = reopen(disk)
    assert node.log.last.index == 6
    assert "body of record 7" in node.log.recovery_note
    number, offset = divmod(node.log.end_position, DATA_FILE_SIZE)
    assert disk.list(DATA)[-1] == data_file(number).name
    assert not any(disk.read(data_file(number))[offset:])


def test_slots_of_a_torn_tail_are_zero() -> None:
    disk = CrashDisk()
    node = filled(disk, 5)
    fill(node.log, 2, size=200)
    path, offset = place(node, 6)
    disk.flip(path, offset + 60)
    disk.restart()
    assert reopen(disk).log.last.index == 5
    assert not any(disk.read(INDEX / f"{0:020}")[6 * 32 :])


def test_a_file_below_the_mark_that_is_gone_is_refused() -> None:
    disk = CrashDisk()
    filled(disk)
    names = disk.list(DATA)
    inode = disk.names.pop(DATA / names[-1])
    with pytest.raises(LogDamaged, match="outside the files"):
        reopen(disk)
    disk.names[DATA / names[-1]] = inode
    del disk.names[DATA / names[1]]
    with pytest.raises(StoreLayoutError, match="restore the missing file"):
        reopen(disk)


def test_all_files_gone_is_not_an_empty_log() -> None:
    disk = CrashDisk()
    filled(disk)
    for name in disk.list(DATA):
        del disk.names[DATA / name]
    with pytest.raises(LogDamaged, match="files are gone"):
        reopen(disk)


def test_without_a_mark_nobody_opens_the_log_who_promises_something_by_it() -> None:
    """R2: mark lost and log non-empty: it does not vote. See test_lost_files.py."""
    disk = CrashDisk()
    filled(disk)
    lose(disk, "flushmark")
    with pytest.raises(LogDamaged, match="neither slot"):
        reopen(disk)
    del disk.names[FOLDER / "flushmark"]
    with pytest.raises(LogDamaged, match="missing"):
        reopen(disk)


def test_one_slot_of_the_mark_may_rot() -> None:
    for slot in (0, 1):
        disk = CrashDisk()
        node = filled(disk)
        disk.flip(FOLDER / "flushmark", slot * 4096 + 25)
        assert dump(reopen(disk).log) == dump(node.log)


def test_every_cache_may_be_deleted() -> None:
    """D7, W12: index files, mirrors, staging: the same state after a restart, data untouched."""
    for lost in (["0"], ["1"], ["0", "1"], ["currterm"], ["checkpoint"]):
        disk = CrashDisk()
        node = filled(disk)
        node.log.save_commit(Index(9))
        wanted = dump(node.log)
        node.close()
        data = [disk.read(DATA / name) for name in disk.list(DATA)]
        for name in lost:
            path = INDEX / f"{int(name) * 256:020}" if name.isdigit() else FOLDER / name
            del disk.names[path]
            disk.kept_names.pop(path, None)
        log = reopen(disk, cache_size_max=0).log
        assert dump(log) == wanted
        assert [log.index_at(log.position_of(Index(index))) for index in range(12)] == [*range(12)]
        assert log.commit_hint == 9
        assert [disk.read(DATA / name) for name in disk.list(DATA)] == data


def test_the_folders_of_caches_may_be_deleted(tmp_path: Path) -> None:
    node = make(OS_FILES, tmp_path / "n")
    fill(node.log, 12, size=200)
    wanted = dump(node.log)
    node.close()
    for name in ("index", "staging"):
        shutil.rmtree(tmp_path / "n" / name)
    node = reopen(OS_FILES, tmp_path / "n")
    assert dump(node.log) == wanted
    fill(node.log, 12, size=200)
    node.close()


@pytest.mark.parametrize("folder", ["data", "index"])
def test_stray_files_are_refused_and_nothing_is_touched(folder: str) -> None:
    disk = CrashDisk()
    filled(disk).close()
    stray = FOLDER / folder / "notes.txt"
    disk.create(stray, 10, staging=FOLDER)
    before = log_files(disk)
    with pytest.raises(StoreLayoutError, match=r"notes\.txt is not a file of a log"):
        reopen(disk)
    assert log_files(disk) == before


def test_a_data_file_of_another_size_is_refused_and_nothing_is_touched() -> None:
    disk = CrashDisk()
    filled(disk).close()
    last = DATA / disk.list(DATA)[-1]
    inode = disk.names[last]
    del inode.seen[-1:]
    before = log_files(disk)
    with pytest.raises(StoreLayoutError, match="has 1023 bytes and the file size"):
        reopen(disk)
    assert log_files(disk) == before


def test_a_full_disk_at_the_end_of_a_file_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: the file that is needed cannot be made; what is here stays and can be read."""
    disk = CrashDisk()
    node = filled(disk, 4, size=150)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(CrashDisk, "create", full)
    with pytest.raises(OSError, match="no space left"):
        fill(node.log, 2, size=300)
    assert node.log.last.index == 3
    assert len(dump(node.log)) == 4
    node.close()
    monkeypatch.undo()
    assert reopen(disk).log.last.index == 3


def test_a_rotten_slot_is_mended_when_it_is_met() -> None:
    """D7, W12: slots are a cache; the data files decide, also in a truncation."""
    for offset in range(32):
        disk = CrashDisk()
        node = filled(disk)
        node.close()
        log = reopen(disk, cache_size_max=0).log
        for index in (3, 4):
            disk.flip(INDEX / f"{0:020}", index * 32 + offset, 0x81)
        before = [disk.read(DATA / name) for name in disk.list(DATA)]
        assert log.index_at(log.position_of(Index(4))) == 4
        assert log.id_of(Index(3)) == (1, 3)
        disk.flip(INDEX / f"{0:020}", 4 * 32 + offset, 0x81)
        assert [disk.read(DATA / name) for name in disk.list(DATA)] == before
        log.truncate_after(Index(4))
        assert [entry.header.sequence for entry in log.entries(Index(0), Index(4))] == [*range(5)]


def test_a_slot_that_points_to_another_record_is_mended() -> None:
    disk = CrashDisk()
    filled(disk).close()
    log = reopen(disk, cache_size_max=0).log
    wanted = log.position_of(Index(4))
    slots = disk.names[INDEX / f"{0:020}"].seen
    slots[4 * 32 + 4 : 4 * 32 + 12] = slots[2 * 32 + 4 : 2 * 32 + 12]
    assert log.position_of(Index(4)) == wanted
    assert log.entry(Index(4)).header.sequence == 4


def test_slots_of_entries_that_were_cut_are_zero() -> None:
    """An old-format reader must not find them (D6)."""
    disk = CrashDisk()
    node = filled(disk)
    node.log.truncate_after(Index(4))
    names = [f"{0:020}", f"{256:020}"]
    assert disk.list(INDEX) == names, "a file that is used again stays"
    slots = b"".join(disk.read(INDEX / name) for name in names)
    assert any(slots[4 * 32 : 5 * 32])
    assert not any(slots[5 * 32 :])


def test_wrong_terms_in_slots_do_not_make_wrong_runs() -> None:
    disk = CrashDisk()
    node = make(disk)
    for term in (1, 1, 1, 2, 2, 5, 5, 5, 5, 5):
        fill(node.log, 1, term)
    runs = node.log.term_runs()
    node.close()
    for index in range(10):
        number, slot = divmod(index, 8)
        path = INDEX / f"{number * 256:020}"
        disk.flip(path, slot * 32 + 31, 7)
        assert reopen(disk).log.term_runs() == runs
        disk.restart()


def test_a_failed_sync_is_never_tried_again() -> None:
    """D5, W7: the pages look clean and are not on disk."""
    disk = CrashDisk()
    node = filled(disk)
    fill(node.log, 2)
    task = node.log.begin_sync()
    assert task is not None
    disk.sync_error = True
    with pytest.raises(OSError, match="refused"):
        task.run()
    disk.sync_error = False
    assert node.log.flushed == 11
    with pytest.raises(AssertionError, match="did not run to its end"):
        node.log.finish_sync(task)
    assert node.log.flushed == 11


def test_after_a_failed_write_the_log_takes_nothing_more() -> None:
    """D5: what is written is unknown, so nothing may follow it."""
    disk = CrashDisk()
    node = filled(disk)
    disk.write_error = True
    with pytest.raises(OSError, match="no space left"):
        fill(node.log, 1)
    disk.write_error = False
    for call in (
        lambda: fill(node.log, 1),
        lambda: node.log.begin_sync(),
        lambda: node.log.begin_mark(),
        lambda: node.log.truncate_after(Index(3)),
    ):
        with pytest.raises(OSError, match="failed before"):
            call()
    assert node.log.last.index == 11
    node.close()
    disk.crash(keep=0.5)
    assert reopen(disk).log.last.index >= 11


def test_the_mark_lags_by_a_tenth_of_a_second_at_most() -> None:
    """R1: also when nothing more is written."""
    disk, clock = CrashDisk(), Clock()
    make(disk).close()
    log = reopen(disk, clock=clock).log
    assert log.mark_deadline() is None or log.mark_deadline() >= clock.now + 1  # only mirrors
    fill(log, 3)
    sync(log)
    due = log.mark_deadline()
    assert due is not None
    assert clock.now < due <= clock.now + 0.1
    clock.now = due - 0.01
    fill(log, 1)
    sync(log)
    assert log.mark_deadline() == due  # later syncs do not put it off
    clock.now = due
    mark(log)
    after = log.mark_deadline()
    assert after is None or after > due + 1
    disk.crash(keep=0.0)
    disk.flip(data_file(0), 60)
    with pytest.raises(LogDamaged, match="body of record 0"):
        reopen(disk)


def test_slots_are_synced_with_the_mark_before_too_many_are_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dledger.log.log_flush.SLOTS_BEHIND_MAX", 10)
    disk = CrashDisk()
    log = make(disk).log
    for _ in range(3):
        fill(log, 6)
        sync(log)
        mark(log)
    disk.crash(keep=0.0)
    slots = b"".join(disk.read(INDEX / name) for name in disk.list(INDEX))
    assert slots[11 * 32 + 16 : 11 * 32 + 24] == (11).to_bytes(8, "big")
    log = reopen(disk).log
    assert log.last.index == 17


def test_terms_are_found_without_reading_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start does not grow with the log: bytes read are counted, not time."""
    read = 0
    real = CrashFile.pread

    def counted(self: CrashFile, size: int, position: int) -> bytes:
        nonlocal read
        read += size
        return real(self, size, position)

    monkeypatch.setattr(CrashFile, "pread", counted)
    counts = []
    for count in (400, 3200):
        disk = CrashDisk()
        log = make(disk).log
        for term in range(1, 5):
            log.append([body_of(0, term, 500)] * (count // 4), Term(term))
        log.close()
        read = 0
        assert [run.term for run in reopen(disk).log.term_runs()] == [1, 2, 3, 4]
        counts.append(read)
    assert counts[1] < counts[0] + 8192


def test_entries_read_before_stay_whole_when_more_is_written() -> None:
    """Views are of bytes that nobody changes."""
    disk = CrashDisk()
    log = filled(disk, 3).log
    fresh = log.entry(Index(2)).body
    cold = reopen(disk, cache_size_max=0).log.entry(Index(2)).body
    log.truncate_after(Index(1))
    fill(log, 20, term=2, size=300)
    assert bytes(fresh) == bytes(cold) == body_of(2, 1, 200)


@pytest.mark.parametrize("slot", [0, 1])
def test_rot_does_not_bring_a_finished_truncation_back(slot: int) -> None:
    """R11: what was appended and acknowledged since is not cut off again."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 6)
    sync(log)
    log.truncate_after(Index(2))
    fill(log, 5, term=2)
    sync(log)
    wanted = dump(log)
    disk.crash(keep=0.0)
    disk.flip(FOLDER / "truncate", slot * 4096 + 1)
    assert dump(reopen(disk).log) == wanted


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("ended_by", ["the truncation", "recovery"])
def test_rot_after_a_truncation_brings_no_mark_back_of_what_is_gone(
    slot: int, ended_by: str
) -> None:
    """R2, R11: either slot of the mark may rot before the next one is written (seed 44381)."""
    disk = CrashDisk()
    filled(disk, 6).close()
    log = reopen(disk).log
    wanted = dump(log)[:3]
    if ended_by == "recovery":  # the power goes when the intent is on disk and the mark is not
        disk.fuse = 2
        with pytest.raises(PowerCut):
            log.truncate_after(Index(2))
        disk.crash(keep=0.0)
        assert IntentFile.open(disk, FOLDER).intent is not None
        log = reopen(disk).log
    else:
        log.truncate_after(Index(2))
    disk.crash(keep=0.0)
    disk.flip(FOLDER / "flushmark", slot * 4096 + 1)
    assert dump(reopen(disk).log) == wanted
