"""A log loses its beginning, by whole files, or everything, and the power goes at each step."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from commitlog.errors import StoreLayoutError
from dledger.core.types import EntryId, Index, Term
from dledger.durable.flush_mark import MARK_DELAY_S
from dledger.errors import RangeRejected
from dledger.log.file_log import FileLog
from dledger.log.log_start import FILE_NAME, LogStart
from dledger.log.port import WantedSpace
from dledger.repair.scrubber import Scrubber
from dledger.testing.conformance import ship
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.dledger.log.stores import (
    DATA_FILE_SIZE,
    FOLDER,
    Clock,
    copy_all,
    dump,
    fill,
    make,
    mark,
    reopen,
    sync,
)

GROUP = '{"members": []}'


def filled(disk: CrashDisk, count: int = 40) -> FileLog:
    """Four entries of 248 bytes fill a file of 1,024 but for 32; all is on disk, marked twice."""
    log = make(disk).log
    fill(log, count, size=200)
    sync(log)
    for _ in range(2):  # one slot of the mark, then the other
        log.flush.mark_now()
        mark(log)
    return log


def trim(log: FileLog, position: int) -> bool:
    task = log.begin_trim(log.start_at(position, GROUP))
    if task is None:
        return False
    task.run()
    log.finish_trim(task)
    return True


def test_whole_files_go_and_the_rest_is_read_as_before() -> None:
    """R15: the log stays anchored in (index, term, chain checksum) of what is gone."""
    disk = CrashDisk()
    log = filled(disk)
    everything = dump(log)
    assert trim(log, 4 * DATA_FILE_SIZE)
    assert (log.first_index, log.anchor) == (16, EntryId(Term(1), Index(15)))
    assert disk.list(FOLDER / "data")[0] == f"{4 * DATA_FILE_SIZE:020}"
    assert disk.list(FOLDER / "index")[0] == f"{16 * 32:020}"
    assert dump(log) == everything[16:]
    assert log.id_of(Index(15)) == log.anchor
    assert log.term_runs() == [(1, 39)]
    with pytest.raises(IndexError, match="16 to 39"):
        log.entry(Index(15))
    with pytest.raises(KeyError):
        log.index_at(3 * DATA_FILE_SIZE)
    log.close()
    again = reopen(disk).log
    assert dump(again) == everything[16:]
    assert again.start == LogStart(
        Term(1), Index(15), everything[15][2], 4 * DATA_FILE_SIZE - 32, 4 * DATA_FILE_SIZE, GROUP
    )


def test_a_full_disk_keeps_the_beginning_and_the_next_deletion_goes_well() -> None:
    """It comes when room is short; it must not end the node that it is to help."""
    disk = CrashDisk()
    log = filled(disk)
    everything = dump(log)
    task = log.begin_trim(log.start_at(4 * DATA_FILE_SIZE, GROUP))
    assert task is not None
    disk.changes.set(0, errno.ENOSPC, once=True)
    task.run()
    assert log.finish_trim(task) is None
    assert dump(log) == everything
    assert trim(log, 4 * DATA_FILE_SIZE)
    assert dump(log) == everything[16:]


def test_nothing_goes_that_the_durable_mark_has_not_passed_or_inside_a_file() -> None:
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 40, size=200)
    sync(log)
    with pytest.raises(KeyError, match="no log file begins"):
        log.start_at(log.position_of(Index(5)))
    for _ in range(2):  # one slot of the mark, then the other
        assert not trim(log, 4 * DATA_FILE_SIZE)
        mark(log)
    assert trim(log, 4 * DATA_FILE_SIZE)
    assert not trim(log, 4 * DATA_FILE_SIZE)


def test_a_scrub_that_had_come_to_the_new_beginning_goes_on_there() -> None:
    log = filled(CrashDisk())
    scrubber = Scrubber(log)
    reached = scrubber.start_before(Index(16))
    assert reached.id.index == 15
    assert trim(log, 4 * DATA_FILE_SIZE)
    scrub = scrubber.begin_scrub(reached, 1 << 20)
    assert scrub is not None
    scrub.run()
    assert (scrub.tail.id, scrub.reason) == (log.last, "")
    assert scrubber.finish_scrub(scrub) is None


@pytest.mark.parametrize("slot", [0, 1])
def test_a_rotten_slot_of_the_mark_leaves_one_that_names_what_is_there(slot: int) -> None:
    disk = CrashDisk()
    log = make(disk).log
    for count in (4, 36):
        fill(log, count, size=200)
        sync(log)
        mark(log)
    if not trim(log, 4 * DATA_FILE_SIZE):
        mark(log)
        assert trim(log, 4 * DATA_FILE_SIZE)
    wanted = dump(log)
    disk.crash(keep=0.0)
    disk.flip(FOLDER / "flushmark", slot * 4096 + 1)
    assert dump(reopen(disk).log) == wanted


def cut_at_every_operation(
    story: Callable[[FileLog], object], check: Callable[[CrashDisk], None]
) -> int:
    """Runs `story` with every fuse; `check` sees what each crash leaves."""
    fuse = 0
    while True:  # ends with the fuse that outlasts the story
        for keep in (0.0, 0.5, 1.0, -1.0):
            disk = CrashDisk()
            log = filled(disk)
            disk.random, disk.fuse = Random(fuse), fuse
            try:
                story(log)
            except PowerCut:
                disk.restart() if keep < 0 else disk.crash(keep=keep)
                check(disk)
            else:
                return fuse
        fuse += 1


def test_a_power_cut_at_every_operation_of_a_deletion_leaves_the_old_or_the_new_beginning() -> None:
    everything = dump(filled(CrashDisk()))

    def check(disk: CrashDisk) -> None:
        found = reopen(disk).log
        assert found.first_index in (0, 16)
        assert dump(found) == everything[found.first_index :]
        disk.crash(keep=0.0)
        again = reopen(disk).log
        assert again.first_index == found.first_index
        assert dump(again) == everything[found.first_index :]

    assert cut_at_every_operation(lambda log: trim(log, 4 * DATA_FILE_SIZE), check) > 8


ELSEWHERE = LogStart(Term(3), Index(99), 12345, 50 * DATA_FILE_SIZE - 8, 50 * DATA_FILE_SIZE, GROUP)


def test_a_power_cut_at_every_operation_of_a_new_beginning_leaves_all_or_nothing() -> None:
    """L4: installed atomically; a crash leaves the whole old log or the empty new one."""
    everything = dump(filled(CrashDisk()))

    def check(disk: CrashDisk) -> None:
        for _ in range(2):
            log = reopen(disk).log
            if log.first_index == 0:
                assert dump(log) == everything
            else:
                assert log.start == ELSEWHERE
                assert (log.last, log.flushed) == (ELSEWHERE.anchor, 99)
                assert log.end_position == ELSEWHERE.end
            disk.crash(keep=0.0)

    assert cut_at_every_operation(lambda log: log.restart_at(ELSEWHERE), check) > 20


def test_a_sync_and_a_mark_that_a_restart_overtook_move_nothing() -> None:
    """Both are of entries that the log had before; it begins behind another anchor now."""
    clock = Clock()
    log = make(CrashDisk(), clock=clock).log
    fill(log, 4)
    sync(log)
    clock.now += MARK_DELAY_S
    marking = log.begin_mark()
    assert marking is not None
    fill(log, 4)
    syncing = log.begin_sync()
    assert syncing is not None
    syncing.run()
    log.restart_at(ELSEWHERE)
    marking.run()
    log.finish_mark(marking)
    assert log.finish_sync(syncing) == ELSEWHERE.anchor.index
    assert (log.last, log.flushed) == (ELSEWHERE.anchor, 99)
    assert log.flush.mark.index in (-1, 99), "no mark of the old entries"
    assert log.flush.begin_sync() is None, "nothing of the old files is left to sync"


def leader_of(disk: CrashDisk) -> FileLog:
    log = filled(disk)
    assert trim(log, 4 * DATA_FILE_SIZE)
    return log


@pytest.mark.parametrize("size", [1, 40, 1000])
@pytest.mark.parametrize("opened", ["restarted", "reopened"])
def test_an_empty_log_looks_for_space_where_its_first_record_will_be(
    opened: str, size: int
) -> None:
    """Its end lies before its first file, where the last one that went ended with a blank."""
    log = make(disk := CrashDisk()).log
    start = replace(ELSEWHERE, end=ELSEWHERE.position - 50)
    log.restart_at(start)
    if opened == "reopened":
        log.close()
        log = reopen(disk).log
    assert log.end_position == start.position - 50
    wanted = WantedSpace(log.end_position, log.end_position + size, Index(100), Index(100))
    task = log.space.begin(wanted)
    if task is not None:
        task.run()
    log.space.make(wanted)
    assert log.space.begin(wanted) is None
    log.append([b"x"], Term(3))
    assert log.last.index == 100


@pytest.mark.parametrize("cached", [True, False])
def test_a_log_that_was_restarted_takes_the_ranges_of_a_trimmed_one(cached: bool) -> None:
    source = leader_of(disk := CrashDisk())
    if not cached:
        source.close()
        source = reopen(disk).log
    assert source.start is not None
    disk = CrashDisk()
    target = make(disk).log
    target.restart_at(source.start)
    copy_all(source, target, size_max=700)
    assert dump(target) == dump(source)
    sync(target)
    disk.crash(keep=0.0)
    assert dump(reopen(disk).log) == dump(source)
    assert disk.read(FOLDER / "data" / f"{4 * DATA_FILE_SIZE:020}")[:992] == (
        source.read_bytes(4 * DATA_FILE_SIZE, 992)
    )


def test_trimmed_and_whole_logs_understand_each_other() -> None:
    """The blank before the first file is gone with the file that it filled, and is made again."""
    whole, trimmed = filled(CrashDisk()), leader_of(CrashDisk())
    behind = make(CrashDisk()).log
    ship(whole.read_range(Index(0), Index(15), 1 << 20), behind, Index(0))
    copy_all(trimmed, behind)  # from exactly the entry that is gone
    assert dump(behind) == dump(whole)
    restarted = make(CrashDisk()).log
    assert trimmed.start is not None
    restarted.restart_at(trimmed.start)
    copy_all(whole, restarted)
    assert dump(restarted) == dump(trimmed)
    with pytest.raises(RangeRejected):
        ship(whole.read_range(Index(0), Index(3), 1 << 20), restarted, Index(40))


@pytest.mark.parametrize("name", ["7", "²"])
def test_a_deletion_leaves_what_is_no_file_of_the_log(name: str) -> None:
    """Somebody put it there: the next start names it, as one of a log that was never trimmed."""
    disk = CrashDisk()
    log = filled(disk)
    stray = FOLDER / "data" / name
    disk.write_atomic(stray, b"notes")
    assert trim(log, 2 * DATA_FILE_SIZE)
    for _ in range(2):
        with pytest.raises(StoreLayoutError, match="is not a file of a log"):
            reopen(disk)
    assert disk.read(stray) == b"notes"
    disk.remove(stray)
    assert reopen(disk).log.first_position == 2 * DATA_FILE_SIZE


def test_a_new_beginning_of_which_one_copy_rots_is_read_from_the_other() -> None:
    disk = CrashDisk()
    log = leader_of(disk)
    wanted = dump(log)
    log.close()
    path = FOLDER / FILE_NAME
    disk.flip(path, 20)
    assert dump(reopen(disk).log) == wanted
    disk.flip(path, len(disk.read(path)) - 30)
    assert dump(reopen(disk).log) == wanted, "the start before has written the first copy anew"


def test_truncation_back_to_the_new_beginning() -> None:
    disk = CrashDisk()
    log = make(disk).log
    log.restart_at(ELSEWHERE)
    copy_all(_continued(ELSEWHERE), log)
    sync(log)
    assert log.last.index == 102
    log.truncate_after(Index(99))
    assert (log.last, log.flushed, log.end_position) == (ELSEWHERE.anchor, 99, ELSEWHERE.end)
    copy_all(_continued(ELSEWHERE), log)
    sync(log)
    log.close()
    assert len(dump(reopen(disk).log)) == 3


def _continued(start: LogStart) -> FileLog:
    """A log that begins at `start` and holds three entries."""
    disk = CrashDisk()
    log = make(disk).log
    log.restart_at(start)
    fill(log, 3, term=4)
    return log
