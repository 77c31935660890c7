"""Both slots of a small file are lost: what a start makes of what is left (D2, R2, R6, R11)."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from commitlog.errors import StoreDamaged
from dledger.core.types import HardState, Index, NodeId, Term
from dledger.durable.hard_state import decode, encode
from dledger.log.node_storage import NodeStorage, open_node
from dledger.log.port import LogStore
from dledger.log.runs import term_of
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.dledger.log.stores import FOLDER, Clock, body_of, dump, fill, make, mark, reopen, sync
from tests.dledger.log.test_crash import (
    KEEPS,
    Story,
    check_zeros_behind,
    count_operations,
    die,
    truncating_story,
)

NEW = 99


def lose(disk: CrashDisk, name: str) -> None:
    """Both slots rot."""
    for slot in (0, 1):
        disk.flip(FOLDER / name, slot * 4096 + 9)


def come_up(disk: CrashDisk, incarnation: int = NEW) -> NodeStorage:
    """As a member of a group does: it may go on as another incarnation."""
    disk.locks.clear()
    return open_node(
        FOLDER,
        cluster_id="cluster",
        group="group",
        node_id="n0",
        clock=Clock(),
        files=disk,
        repairable=True,
        draw_incarnation=lambda: incarnation,
    )


def written(disk: CrashDisk, count: int = 12) -> list[tuple[int, int, int, bytes]]:
    """A node that voted in term 5, with so many entries on disk and marked; what its log holds."""
    node = make(disk)
    save = node.hard_state.begin_save(HardState(Term(5), NodeId("n2"), 7))
    save.run()
    node.hard_state.finish_save(save)
    fill(node.log, count, term=3, size=200)
    sync(node.log)
    mark(node.log)
    return dump(node.log)


def appended(log: LogStore) -> None:
    log.append([body_of(log.last.index + 1, 9)], Term(9))
    sync(log)


@pytest.mark.parametrize("vote", [None, NodeId("n1")])
def test_a_hard_state_says_that_it_forgot(vote: NodeId | None) -> None:
    for forgot in (False, True):
        state = HardState(Term(4), vote, 1 << 63, forgot)
        assert decode(encode(state)) == state


@pytest.mark.parametrize("deleted", [False, True])
def test_without_its_vote_file_a_node_goes_on_as_one_that_forgot(deleted: bool) -> None:
    disk = CrashDisk()
    found = written(disk)
    lose(disk, "hardstate")
    if deleted:
        del disk.names[FOLDER / "hardstate"]
    node = come_up(disk)
    assert node.hard_state.state == HardState(Term(0), None, NEW, forgot=True)
    assert dump(node.log) == found, "it keeps its log"
    disk.crash(keep=0.0)
    again = come_up(disk, incarnation=NEW + 1)
    assert again.hard_state.state.incarnation == NEW, "the next start is the same incarnation"
    assert again.hard_state.state.forgot


@pytest.mark.parametrize("deleted", [False, True])
def test_without_its_mark_a_node_keeps_its_log_and_its_vote_and_forgot(deleted: bool) -> None:
    disk = CrashDisk()
    found = written(disk)
    lose(disk, "flushmark")
    if deleted:
        del disk.names[FOLDER / "flushmark"]
    node = come_up(disk)
    assert node.hard_state.state == HardState(Term(5), NodeId("n2"), NEW, forgot=True)
    assert dump(node.log) == found
    assert node.log.flushed == node.log.last.index
    appended(node.log)
    disk.crash(keep=0.0)
    assert dump(come_up(disk).log)[:-1] == found


def test_damage_below_the_mark_that_is_found_is_no_end_of_the_log() -> None:
    """D8: only the file that the found mark begins is searched for the end."""
    disk = CrashDisk()
    found = written(disk)
    node = reopen(disk)
    place = node.log.position_of(Index(2))
    lose(disk, "flushmark")
    disk.flip(FOLDER / "data" / f"{0:020}", place + 60)
    node = come_up(disk)
    assert node.log.last.index == len(found) - 1


def test_the_mark_of_an_empty_log_is_found_again() -> None:
    disk = CrashDisk()
    make(disk)
    lose(disk, "flushmark")
    node = come_up(disk)
    assert node.log.last.index == -1
    appended(node.log)
    disk.crash(keep=0.0)
    assert come_up(disk).log.last == (9, 0)


@pytest.mark.parametrize("name", ["hardstate", "flushmark"])
def test_a_power_cut_at_every_operation_of_such_a_start(name: str) -> None:
    """No start believes the mark that was made again in the incarnation before."""
    for fuse in range(40):
        disk = CrashDisk()
        found = written(disk)
        lose(disk, name)
        disk.random = Random(fuse)
        disk.fuse = fuse
        with contextlib.suppress(PowerCut):
            come_up(disk)
        died = disk.dead
        disk.crash(keep=disk.random.choice((0.0, 0.5, 1.0)))
        node = come_up(disk)
        assert node.hard_state.state.forgot
        assert node.hard_state.state.incarnation == NEW
        assert dump(node.log) == found
        if not died:
            return
    raise AssertionError("no start came to its end")


def test_what_a_mark_that_is_found_counts_is_on_disk() -> None:
    """R3: a killed process left records un-synced in a file before the one that the mark names."""
    disk = CrashDisk()
    written(disk)
    node = come_up(disk)
    fill(node.log, 12, term=3, size=200)
    found = dump(node.log)
    lose(disk, "flushmark")
    node = come_up(disk)
    flushed = node.log.flushed
    assert dump(node.log) == found
    disk.crash(keep=0.0)
    assert dump(come_up(disk).log)[: flushed + 1] == found[: flushed + 1]
    assert flushed == len(found) - 1


@pytest.mark.parametrize("of_the_start", [False, True])
def test_what_a_failed_sync_left_is_on_disk_when_a_found_mark_counts_it(of_the_start: bool) -> None:
    """R3: pages of a sync that failed look clean, and the next sync passes them over."""
    disk = CrashDisk()
    written(disk)
    node = come_up(disk)
    fill(node.log, 12, term=3, size=200)
    found = dump(node.log)
    disk.sync_error = True
    if of_the_start:
        lose(disk, "flushmark")
    with pytest.raises(OSError, match="the disk refused"):
        come_up(disk) if of_the_start else sync(node.log)
    disk.sync_error = False
    disk.restart()
    if not of_the_start:
        lose(disk, "flushmark")
    node = come_up(disk)
    assert node.log.flushed == len(found) - 1
    disk.crash(keep=0.0)
    assert dump(come_up(disk).log) == found


def test_the_only_record_is_damaged_and_its_slot_is_lost() -> None:
    """The mark says its term, so the log opens and the record can be repaired (D8)."""
    disk = CrashDisk()
    written(disk, 1)
    slots = disk.open(FOLDER / "index" / f"{0:020}")
    slots.pwrite(bytes(32), 0)
    slots.datasync()
    disk.flip(FOLDER / "data" / f"{0:020}", 38)
    log = come_up(disk).log
    assert log.term_runs() == [(3, 0)]
    assert [(one.first, one.last) for one in log.damage.ranges] == [(0, 0)]


@pytest.mark.parametrize("keep", KEEPS)
def test_a_truncation_whose_intent_is_lost_leaves_a_prefix_of_what_was_there(keep: float) -> None:
    """R11: nothing below it is missing, and no entry behind a hole comes back."""
    start, end = count_operations(truncating_story)
    for fuse in range(end - start):
        disk = CrashDisk()
        story = Story(disk)
        disk.random = Random(fuse)
        disk.fuse = fuse
        with pytest.raises(PowerCut):
            truncating_story(story)
        die(disk, keep)
        lose(disk, "truncate")
        node = reopen(disk)
        found = dump(node.log)
        assert found in (story.before[: len(found)], dump(story.model)[: len(found)])
        assert len(found) > story.flushed
        check_zeros_behind(disk, node.log.end_position)
        disk.crash(keep=0.0)
        node = reopen(disk)
        assert dump(node.log) == found
        appended(node.log)
        disk.crash(keep=0.0)
        assert dump(reopen(disk).log)[:-1] == found


def behind_a_hole(seed: int, keep: float) -> tuple[CrashDisk, list[tuple[int, int, int, bytes]]]:
    """The power went with files un-synced, which reached the disk in part; the mark is lost, too.

    Returns what the log held; 12 entries of it were on disk for certain.
    """
    disk = CrashDisk()
    written(disk)
    log = come_up(disk).log
    fill(log, 5 + seed, term=3, size=200)
    fill(log, 12, term=4, size=200)
    held = dump(log)
    disk.random = Random(seed)
    disk.crash(keep=keep)
    lose(disk, "flushmark")
    return disk, held


@pytest.mark.parametrize("keep", [0.3, 0.6])
def test_a_hole_below_the_mark_that_is_found_refuses_no_start(keep: float) -> None:
    """R1, R2: no peer need have what was never synced; what was on disk is not cut with it."""
    cut = 0
    for seed in range(20):
        disk, held = behind_a_hole(seed, keep)
        log = come_up(disk).log
        whole = min([one.first for one in log.damage.ranges], default=log.last.index + 1)
        assert whole >= 12
        assert [term_of(log.term_runs(), at) for at in range(whole)] == [
            row[1] for row in held[:whole]
        ]
        cut += log.last.index < len(held) - 1
        appended(log)
        last = log.last
        disk.crash(keep=0.0)
        assert come_up(disk).log.last == last
    assert cut > 5


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_power_cut_at_every_operation_of_a_start_above_a_hole(keep: float) -> None:
    """The mark that is too high may be on disk by then; the next start lowers it, too."""
    for fuse in range(200):
        disk, _ = behind_a_hole(3, 0.3)
        disk.fuse = fuse
        with contextlib.suppress(PowerCut):
            come_up(disk)
        died = disk.dead
        disk.crash(keep=keep)
        log = come_up(disk).log
        assert min([one.first for one in log.damage.ranges], default=log.last.index + 1) >= 12
        if not died:
            return
    raise AssertionError("no start came to its end")


def test_a_hole_below_a_mark_of_its_own_refuses_the_start_of_a_node_that_forgot() -> None:
    """D8: readmitted in this incarnation, it may have acknowledged what was in the hole."""
    disk = CrashDisk()
    written(disk)
    lose(disk, "flushmark")
    node = come_up(disk)
    fill(node.log, 12, term=4, size=200)
    sync(node.log)
    mark(node.log)
    first, last = (node.log.position_of(Index(at)) for at in (9, 16))
    disk.restart()
    for folder, start, end in (("data", first, last), ("index", 9 * 32, 16 * 32)):
        for path in sorted(disk.list(FOLDER / folder)):
            file = disk.open(FOLDER / folder / path)
            low, high = max(start - int(path), 0), min(end - int(path), file.size)
            if low < high:
                file.pwrite(bytes(high - low), low)
                file.datasync()
    with pytest.raises(StoreDamaged, match="there is no record"):
        come_up(disk)
