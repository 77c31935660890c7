"""The parts of a log alone: its list of damage, its syncs and mark, its open files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dledger.core.types import Index, Term
from dledger.durable.flush_mark import Mark
from dledger.errors import LogUsageError
from dledger.log.damage import Damage, KnownDamage
from dledger.repair.scrubber import Scrubber
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, Clock, fill, make, mark, sync

DATA = FOLDER / "data"


def ranges(damage: KnownDamage) -> list[tuple[int, int]]:
    return [(found.first, found.last) for found in damage.ranges]


def known(*pairs: tuple[int, int]) -> KnownDamage:
    return KnownDamage([Damage(Index(first), Index(last), "rotten") for first, last in pairs])


def test_damage_that_is_found_replaces_the_ranges_it_touches_and_stays_in_order() -> None:
    damage = known((2, 3), (8, 9))
    damage.add(Damage(Index(9), Index(12), "longer"))
    damage.add(Damage(Index(5), Index(5), "between"))
    assert ranges(damage) == [(2, 3), (5, 5), (9, 12)]


def test_entries_found_whole_take_only_ranges_that_lie_within() -> None:
    damage = known((2, 3), (5, 9))
    damage.found_whole(Index(1), 6)
    assert ranges(damage) == [(5, 9)]


def test_restored_entries_leave_the_damage_behind_them() -> None:
    damage = known((2, 3), (5, 9))
    damage.restored(5, Index(6))
    assert ranges(damage) == [(2, 3), (7, 9)]
    damage.restored(1, Index(4))
    assert ranges(damage) == [(7, 9)]


def test_damage_goes_with_the_entries_that_are_cut() -> None:
    damage = known((2, 3), (5, 9))
    damage.cut_after(Index(6))
    assert ranges(damage) == [(2, 3), (5, 6)]
    damage.cut_before(Index(3))
    assert ranges(damage) == [(3, 3), (5, 6)]
    damage.extend_down(Index(5), Index(4), "a peer has another record")
    assert ranges(damage) == [(3, 3), (4, 6)]


def test_a_sync_that_a_truncation_overtook_moves_nothing() -> None:
    log = make(CrashDisk()).log
    fill(log, 3)
    task = log.flush.begin_sync()
    assert task is not None
    task.run()
    log.flush.cut(replace(log.pointers.end_mark(), index=Index(1)))
    assert log.flush.finish_sync(task) == -1
    again = log.flush.begin_sync()
    assert again is not None, "the end is not known to be on disk yet"
    again.run()
    assert log.flush.finish_sync(again) == 2


def test_a_mark_is_lowered_in_both_slots_and_never_raised() -> None:
    log = make(CrashDisk(), clock=Clock()).log
    fill(log, 4)
    sync(log)
    mark(log)
    kept = Mark(Index(1), Term(1), 148, 7)
    log.flush.lower_mark(replace(kept, index=Index(9)))
    assert log.flush.mark.index == 3
    log.flush.lower_mark(kept)
    assert log.flush.mark_file.older == log.flush.mark == replace(kept, slots=log.flush.mark.slots)


def test_an_unlinked_file_stays_open_until_the_work_that_may_hold_it_ends() -> None:
    """A descriptor closed under work in a thread could be another file's by then."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 12, size=200)
    sync(log)
    scrub = Scrubber(log).begin_scrub(None, 1 << 20)
    assert scrub is not None
    log.files.data.drop_after(1)
    log.files.close_unlinked()
    assert log.files.data.unlinked
    log.end_work(scrub)
    log.files.close_unlinked()
    assert not log.files.data.unlinked


def test_a_truncation_cancels_the_work_that_reads_what_it_cuts() -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 12, size=200)
    sync(log)
    files = disk.list(DATA)
    scrub = Scrubber(log).begin_scrub(None, 1 << 20)
    assert scrub is not None
    log.truncate_after(Index(1))
    assert scrub.cancelled
    assert disk.list(DATA) == files, "they are used again"
    log.end_work(scrub)


def test_a_log_that_failed_refuses_the_calls_of_every_part() -> None:
    log = make(CrashDisk()).log
    fill(log, 2)
    log.abandon()
    for call in (log.begin_sync, log.begin_mark, lambda: log.append([b"x"], Term(1))):
        with pytest.raises(OSError, match="the log failed before"):
            call()


def test_a_closed_log_that_is_read_reports_no_damage() -> None:
    log = make(CrashDisk()).log
    fill(log, 5)
    found: list[Index] = []
    log.reader.cold.when_damaged = found.append
    log.close()
    with pytest.raises(LogUsageError, match="after the log was closed"):
        log.read_range(Index(2), Index(5), 1 << 20)
    assert found == []
