"""The virtual disk really loses what was not synced, and only that."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from chaos.sim.disk import SECTOR_SIZE, CutPolicy, PowerCut, SimDisk, SimFile

LOSE = CutPolicy(sector_kept=0.0, name_kept=0.0)
KEEP = CutPolicy(sector_kept=1.0, name_kept=1.0)
HALF = CutPolicy(sector_kept=0.5, name_kept=0.5)
DATA = Path("/n/data")
STAGING = Path("/n/staging")


def make(disk: SimDisk, name: str = "0", size: int = 4096) -> SimFile:
    return disk.create(DATA / name, size, staging=STAGING)


def test_unsynced_write_is_seen_and_lost_at_a_power_cut() -> None:
    disk = SimDisk(Random(1))
    file = make(disk)
    file.pwrite(b"kept", 0)
    file.datasync()
    file.pwrite(b"lost", 4)
    assert file.pread(8, 0) == b"keptlost"
    assert bytes(file.view(4, 4)) == b"lost"
    assert disk.is_durable(str(DATA / "0"), 0, 4)
    assert not disk.is_durable(str(DATA / "0"), 4, 4)
    disk.power_cut(LOSE)
    assert disk.open(DATA / "0").pread(8, 0) == b"kept" + bytes(4)


def test_killed_process_keeps_the_page_cache_but_it_stays_unsynced() -> None:
    disk = SimDisk(Random(1))
    make(disk).pwrite(b"cached", 0)
    disk.process_died()
    assert disk.open(DATA / "0").pread(6, 0) == b"cached"
    disk.power_cut(LOSE)
    assert disk.open(DATA / "0").pread(6, 0) == bytes(6)


def test_sync_covers_only_what_was_written_before_it_began() -> None:
    disk = SimDisk(Random(1))
    file = make(disk)
    file.pwrite(b"before", 0)
    barrier = disk.writes
    file.pwrite(b"meanwhile", 100)
    disk.begin_task(barrier)
    file.pwrite(b"by the task", 200)
    file.datasync()
    disk.end_task()
    disk.power_cut(LOSE)
    file = disk.open(DATA / "0")
    assert file.pread(6, 0) == b"before"
    assert file.pread(9, 100) == bytes(9)
    assert file.pread(11, 200) == b"by the task"


def test_torn_writes_keep_whole_sectors_in_any_order() -> None:
    holes_before_data = False
    for seed in range(40):
        disk = SimDisk(Random(seed))
        file = make(disk)
        file.pwrite(b"\x01" * 4 * SECTOR_SIZE, 0)
        disk.power_cut(HALF)
        content = disk.open(DATA / "0").pread(4 * SECTOR_SIZE, 0)
        sectors = [content[at : at + SECTOR_SIZE] for at in range(0, len(content), SECTOR_SIZE)]
        assert all(sector in (bytes(SECTOR_SIZE), b"\x01" * SECTOR_SIZE) for sector in sectors)
        kept = [sector[0] for sector in sectors]
        holes_before_data = holes_before_data or kept != sorted(kept, reverse=True)
    assert holes_before_data


def test_failed_sync_is_not_made_good_by_the_next_one() -> None:
    disk = SimDisk(Random(1))
    file = make(disk)
    file.pwrite(b"doomed", 0)
    disk.fail(1)
    with pytest.raises(OSError, match="input/output error") as caught:
        file.datasync()
    assert caught.value.errno == errno.EIO
    disk.repair()
    file.datasync()
    assert file.pread(6, 0) == b"doomed", "the page cache still shows it"
    assert not disk.is_durable(str(DATA / "0"), 0, 6)
    disk.power_cut(KEEP)
    assert disk.open(DATA / "0").pread(6, 0) == bytes(6)


def test_fuse_blows_at_every_operation_of_a_create() -> None:
    outcomes = set()
    for operations in range(1, 7):
        disk = SimDisk(Random(1))
        disk.fuse(operations)
        try:
            make(disk)
            outcomes.add("made")
        except PowerCut:
            with pytest.raises(PowerCut):
                disk.sync_dir(DATA)  # a dead machine does nothing more
            disk.power_cut(LOSE)
            outcomes.add("absent" if not disk.exists(DATA / "0") else "there")
            if disk.exists(DATA / "0"):
                assert disk.file_size(DATA / "0") == 4096
    assert outcomes == {"made", "absent", "there"}


def test_rename_without_folder_sync_may_vanish() -> None:
    disk = SimDisk(Random(1))
    disk.write_atomic(DATA / "mirror", b"old")
    disk.write_atomic(DATA / "other", b"new")
    disk.rename(DATA / "other", DATA / "mirror")
    assert disk.read(DATA / "mirror") == b"new"
    disk.power_cut(LOSE)
    assert disk.read(DATA / "mirror") == b"old"
    assert disk.read(DATA / "other") == b"new"


def test_removed_file_comes_back_when_the_folder_was_not_synced() -> None:
    disk = SimDisk(Random(1))
    make(disk)
    disk.remove(DATA / "0")
    assert disk.list(DATA) == []
    disk.power_cut(LOSE)
    assert disk.list(DATA) == ["0"]
    disk.remove(DATA / "0")
    disk.sync_dir(DATA)
    disk.power_cut(LOSE)
    assert disk.list(DATA) == []


def test_full_disk_refuses_new_files_and_keeps_old_ones_writable() -> None:
    disk = SimDisk(Random(1))
    file = make(disk)
    disk.free = 100
    with pytest.raises(OSError, match="no space left") as caught:
        make(disk, "4096")
    assert caught.value.errno == errno.ENOSPC
    file.pwrite(b"still allocated", 0)
    assert disk.usage(DATA).free == 100
    assert disk.list(DATA) == ["0"]


def test_what_rots_goes_with_its_file() -> None:
    disk = SimDisk(Random(1))
    make(disk)
    disk.flip(str(DATA / "0"), 7, 2)
    assert disk.rotten("data")
    disk.remove(DATA / "0")
    assert not disk.rotten("data")


def test_flip_survives_a_power_cut_and_is_undone_by_itself() -> None:
    disk = SimDisk(Random(1))
    file = make(disk)
    file.pwrite(b"A", 7)
    file.datasync()
    disk.flip(str(DATA / "0"), 7, 2)
    disk.power_cut(LOSE)
    assert disk.open(DATA / "0").pread(1, 7) == b"C"
    disk.flip(str(DATA / "0"), 7, 2)
    assert disk.open(DATA / "0").pread(1, 7) == b"A"


def test_lock_is_exclusive_and_dies_with_the_process() -> None:
    disk = SimDisk(Random(1))
    lock = disk.lock(Path("/n/lock"))
    with pytest.raises(BlockingIOError):
        disk.lock(Path("/n/lock"))
    lock.release()
    disk.lock(Path("/n/lock"))
    disk.process_died()
    disk.lock(Path("/n/lock"))


def test_nothing_is_written_behind_a_file_limit() -> None:
    disk = SimDisk(Random(1))
    file = make(disk, size=4096)
    disk.file_limit = 1000
    file.pwrite(b"below", 990)
    with pytest.raises(OSError, match="too large") as caught:
        file.pwrite(b"above", 996)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(OSError, match="too large"):
        make(disk, "4096", size=4096)
    disk.repair()
    file.pwrite(b"above", 996)


def test_a_disk_that_lies_loses_what_it_said_was_synced() -> None:
    disk = SimDisk(Random(1))
    file = make(disk)
    disk.lies = True
    file.pwrite(b"lost", 0)
    file.datasync()
    assert not disk.is_durable(str(DATA / "0"), 0, 4)
    disk.power_cut(LOSE)
    assert disk.open(DATA / "0").pread(4, 0) == bytes(4)


def test_the_process_dies_while_it_begins_a_file() -> None:
    whole = 0
    for seed in range(20):
        disk = SimDisk(Random(seed))
        disk.cut_create = True
        with pytest.raises(PowerCut):
            make(disk)
        disk.power_cut(LOSE)
        whole += disk.exists(DATA / "0")
    assert 0 < whole < 20, "before its name is durable, and behind that"
