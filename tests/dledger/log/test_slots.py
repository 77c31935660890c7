"""Slots of entries that come one by one are gathered: when they are written, what a crash takes."""

from __future__ import annotations

import pytest

from dledger.core.types import Index, Term
from dledger.log.check import SLOT
from dledger.repair.scrubber import Scrubber
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, Clock, dump, fill, make, mark, reopen, sync

INDEX = FOLDER / "index"


def slots_on_disk(disk: CrashDisk) -> list[int]:
    """Indexes of the slots in the index files, in file order."""
    data = b"".join(disk.read(INDEX / name) for name in sorted(disk.list(INDEX)))
    return [index for magic, _, _, index, _ in SLOT.iter_unpack(data) if magic == 1]


def test_single_entries_write_no_slot_until_the_flush_mark() -> None:
    disk, clock = CrashDisk(), Clock()
    make(disk).close()
    log = reopen(disk, clock=clock).log
    fill(log, 3)
    assert slots_on_disk(disk) == []
    sync(log)
    assert slots_on_disk(disk) == []
    clock.now += 1
    mark(log)
    assert slots_on_disk(disk) == [0, 1, 2]


def test_mended_slots_are_synced_by_the_next_mark() -> None:
    """The scrubber writes a rotten slot anew; a power cut after the next mark leaves it whole."""
    disk, clock = CrashDisk(), Clock()
    log = make(disk).log
    fill(log, 6)
    log.close()
    disk.flip(INDEX / f"{0:020}", 3 * SLOT.size)
    log = reopen(disk, clock=clock).log
    clock.now = log.mark_deadline() or clock.now  # the mirrors for Java, written after each start
    mark(log)
    assert log.mark_deadline() is None
    scrubber = Scrubber(log)
    scrub = scrubber.begin_scrub(None, 1 << 20)
    assert scrub is not None
    scrub.run()
    scrubber.finish_scrub(scrub)
    assert scrubber.mended_slots > 0
    due = log.mark_deadline()
    assert due is not None, "nothing else is to be written, yet the mended slots are"
    clock.now = due
    mark(log)
    assert log.mark_deadline() is None
    disk.crash(keep=0.0)
    assert slots_on_disk(disk) == [0, 1, 2, 3, 4, 5]


def test_a_block_of_gathered_slots_is_written_at_once() -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 127, size=8)
    assert slots_on_disk(disk) == []
    fill(log, 1, size=8)
    assert slots_on_disk(disk) == list(range(128))


def test_gathered_slots_serve_readers() -> None:
    disk = CrashDisk()
    make(disk).close()
    log = reopen(disk, cache_size_max=0).log
    fill(log, 5)
    before = disk.operations
    assert [log.position_of(Index(index)) for index in range(5)] == [
        entry.header.position for entry in log.entries(Index(0), Index(4))
    ]
    assert disk.operations == before  # a read writes nothing


def test_a_truncation_leaves_no_slot_above_it() -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 6)
    log.truncate_after(Index(2))
    assert slots_on_disk(disk) == [0, 1, 2]
    log.append([b"other"], Term(2))
    assert [term for _, term, _, _ in dump(log)][-1] == 2
    log.close()
    assert slots_on_disk(disk) == [0, 1, 2, 3]


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_gathered_slots_that_a_crash_took_are_made_again(keep: float) -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 9)
    sync(log)
    wanted = dump(log)
    disk.crash(keep=keep)
    found = reopen(disk).log
    assert dump(found) == wanted
    assert slots_on_disk(disk) == list(range(9))


def test_a_disk_that_refuses_gathered_slots_fails_the_log() -> None:
    """D5: also when it is found out while a mark is begun."""
    disk, clock = CrashDisk(), Clock()
    make(disk).close()
    log = reopen(disk, clock=clock).log
    fill(log, 3)
    sync(log)
    clock.now += 1
    disk.write_error = True
    with pytest.raises(OSError, match="no space left"):
        log.begin_mark()
    disk.write_error = False
    with pytest.raises(OSError, match="failed before"):
        fill(log, 1)
