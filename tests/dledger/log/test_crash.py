"""The power goes at every disk operation, and what is left is opened again.

One schedule with everything in it runs until the fuse blows; then the disk loses all, nothing, or a
random part of what was not synced. Whatever comes back must be a prefix of what was written, must
hold all that was flushed, and must keep it when the power goes at once again (D1, D3, D6, R3, R11).
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from random import Random

import pytest

from dledger.core.types import HardState, Index, NodeId, Term
from dledger.durable.truncate_intent import Intent, IntentFile
from dledger.errors import HardStateLost
from dledger.log.node_storage import NodeStorage
from dledger.log.port import LogStore
from dledger.testing.memory import MemoryLog
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.dledger.log.stores import DATA_FILE_SIZE, FOLDER, body_of, dump, make, mark, reopen, sync

KEEPS = (0.0, 1.0, 0.5)
KILLED = -1.0  # only the process died: nothing is lost now, and all of it at the next power cut


class Story:
    """What was asked of a log, on the real one and on the reference, step by step."""

    def __init__(self, disk: CrashDisk) -> None:
        self.disk = disk
        self.node: NodeStorage = make(disk)
        self.model = MemoryLog(file_size=DATA_FILE_SIZE)
        self.flushed = -1  # told to somebody: must never be lost
        self.before: list[tuple[int, int, int, bytes]] = []  # the model before the step

    @property
    def log(self) -> LogStore:
        return self.node.log

    def append(self, sizes: list[int], term: int) -> None:
        first = self.model.last.index + 1
        bodies = [body_of(first + number, term, size) for number, size in enumerate(sizes)]
        self.before = dump(self.model)
        self.model.append(bodies, Term(term))
        self.log.append(bodies, Term(term))

    def sync(self) -> None:
        self.before = dump(self.model)
        self.flushed = max(self.flushed, sync(self.log))

    def mark(self) -> None:
        self.before = dump(self.model)
        mark(self.log)

    def truncate(self, index: int) -> None:
        self.before = dump(self.model)
        self.flushed = min(self.flushed, index)
        self.model.truncate_after(Index(index))
        self.log.truncate_after(Index(index))

    def prepare(self) -> None:
        for _ in range(2):
            task = self.node.log.begin_prepare()
            if task is not None:
                task.run()

    def intent(self) -> Intent | None:
        return IntentFile.open(self.disk, FOLDER).intent

    def check_survivor(self, intent: Intent | None = None) -> None:
        """Open what is left; see the module's text. `intent`: one that was durable before."""
        intent = intent or self.intent()
        twin = copy.deepcopy(self.disk)
        node = reopen(self.disk)
        found = dump(node.log)
        if intent is not None:  # R11: what was begun durably is finished
            assert len(found) <= intent.index + 1
            assert self.intent() is None
        wanted = dump(self.model)
        assert found in (self.before[: len(found)], wanted[: len(found)])
        assert len(found) >= self.flushed + 1
        assert node.log.flushed == node.log.last.index
        check_zeros_behind(self.disk, node.log.end_position)
        self.disk.crash(keep=0.0)  # everything that recovery answers for must be on disk (R3)
        again = reopen(self.disk)
        assert dump(again.log) == found
        for disk in (self.disk, twin):  # and what is added stays, also when added at once
            log = reopen(disk).log
            log.append([body_of(len(found), 99)], Term(99))
            sync(log)
            disk.crash(keep=0.0)
            log = reopen(disk).log
            assert dump(log)[:-1] == found
            assert log.last == (99, len(found))


def check_zeros_behind(disk: CrashDisk, end: int) -> None:
    """D6, R14: nothing but zeros behind the log, 8 of them at least."""
    folder = FOLDER / "data"
    files = disk.list(folder)
    number, offset = divmod(end, DATA_FILE_SIZE)
    assert files[-1] == f"{number * DATA_FILE_SIZE:020}"
    rest = disk.read(folder / files[-1])[offset:]
    assert len(rest) >= 8
    assert not any(rest)


def whole_story(story: Story) -> None:
    """Batches over file ends, syncs, marks, truncations over blanks and files, equal sizes (W9)."""
    story.append([100, 100, 300], 1)
    story.sync()
    story.append([500, 40], 1)
    story.append([200, 200, 200, 200, 200], 2)
    story.mark()
    story.sync()
    story.prepare()
    story.append([100] * 9, 2)
    story.mark()
    story.sync()
    story.truncate(14)
    story.append([100, 100], 3)
    story.sync()
    story.mark()
    story.append([700, 700, 700, 700], 3)
    story.truncate(6)
    story.append([200, 200], 4)
    story.sync()
    story.truncate(2)
    story.append([900], 5)
    story.mark()
    story.sync()
    story.truncate(-1)
    story.append([100, 900], 6)
    story.sync()


def count_operations(tell: Callable[[Story], None]) -> tuple[int, int]:
    disk = CrashDisk()
    story = Story(disk)
    before = disk.operations
    tell(story)
    return before, disk.operations


def die(disk: CrashDisk, keep: float) -> None:
    if keep == KILLED:
        disk.restart()
    else:
        disk.crash(keep=keep)


@pytest.mark.parametrize("keep", [*KEEPS, KILLED])
def test_a_power_cut_at_every_operation(keep: float) -> None:
    """D3, D6, R1, R3, R10, R11, R13, R14; W6, W9."""
    start, end = count_operations(whole_story)
    assert end - start > 80
    for fuse in range(end - start):
        for seed in range(2 if 0 < keep < 1 else 1):
            disk = CrashDisk()
            story = Story(disk)
            disk.random = Random(fuse * 1000 + seed)
            disk.fuse = fuse
            with pytest.raises(PowerCut):
                whole_story(story)
            die(disk, keep)
            story.check_survivor()


def test_a_power_cut_at_every_operation_of_the_recovery_itself() -> None:
    """R3, R11: recovery that is cut short is simply done again."""
    for fuse in range(0, 140, 5):
        for inner in range(fuse % 3, 18, 3):
            disk = CrashDisk()
            story = Story(disk)
            disk.random = Random(fuse * 1000 + inner)
            disk.fuse = fuse
            try:
                whole_story(story)
            except PowerCut:
                die(disk, disk.random.choice((0.5, KILLED)))
            else:
                break
            disk.fuse = inner
            with contextlib.suppress(PowerCut):
                reopen(disk)
            die(disk, disk.random.choice((0.5, KILLED)))
            story.check_survivor()


def truncating_story(story: Story) -> None:
    story.append([200] * 9, 1)
    story.sync()
    story.mark()
    story.truncate(1)


def test_a_truncation_that_recovery_took_up_is_finished_whatever_stops_it() -> None:
    """R11: killed in the truncation, power cut in the recovery: no dropped byte comes back."""
    start, end = count_operations(truncating_story)
    finished = 0
    for fuse in range(end - start):
        for inner in range(8 + fuse % 2, 28, 2):  # 8: hard state and intent are settled
            disk = CrashDisk()
            story = Story(disk)
            disk.random = Random(fuse)
            disk.fuse = fuse
            with pytest.raises(PowerCut):
                truncating_story(story)
            disk.restart()
            intent = story.intent()
            if intent is None:
                break
            disk.fuse = inner
            with contextlib.suppress(PowerCut):
                reopen(disk)
            disk.crash(keep=0.0)
            story.check_survivor(intent)
            finished += 1
    assert finished > 50


def test_a_killed_process_loses_nothing_that_was_written() -> None:
    """Only the machine forgets un-synced writes; what recovery finds it must sync itself (R3)."""
    disk = CrashDisk()
    story = Story(disk)
    story.append([100, 300, 800], 1)
    disk.restart()
    node = reopen(disk)
    assert dump(node.log) == dump(story.model)
    assert node.log.recovered_entries == 3
    disk.crash(keep=0.0)
    assert dump(reopen(disk).log) == dump(story.model)


def test_a_save_of_the_hard_state_is_old_or_new_at_every_cut() -> None:
    """D1, D2, R7, W8: never a lower term than one that was revealed, never "no state"."""
    old, new = HardState(Term(4), NodeId("n1"), 7), HardState(Term(5), NodeId("n2"), 7)
    for fuse in range(4):
        for keep in (*KEEPS, KILLED):
            disk = CrashDisk()
            store = make(disk).hard_state
            save(store, old)
            disk.random = Random(fuse)
            disk.fuse = fuse
            with pytest.raises(PowerCut):
                save(store, new)
            die(disk, keep)
            found = reopen(disk).hard_state.state
            assert found in (old, new)
            disk.crash(keep=0.0)  # the node may have told it to others by now
            assert reopen(disk).hard_state.state == found


def test_a_finished_save_survives_the_loss_of_either_slot() -> None:
    """R7: both slots hold it before the term or vote is revealed."""
    new = HardState(Term(5), NodeId("n2"), 7)
    for slot in (0, 1):
        disk = CrashDisk()
        save(make(disk).hard_state, new)
        disk.crash(keep=0.0)
        disk.flip(FOLDER / "hardstate", slot * 4096 + 25)
        assert reopen(disk).hard_state.state == new


def test_without_a_valid_slot_the_node_does_not_start() -> None:
    """D2, W8: never back to term 0."""
    disk = CrashDisk()
    node = make(disk)
    save(node.hard_state, HardState(Term(5), NodeId("n2"), 7))
    node.close()
    for slot in (0, 1):
        disk.flip(FOLDER / "hardstate", slot * 4096 + 25)
    with pytest.raises(HardStateLost, match="do not start it"):
        reopen(disk)
    disk.remove(FOLDER / "hardstate")
    with pytest.raises(HardStateLost, match="missing"):
        reopen(disk)


def save(store: object, state: HardState) -> None:
    task = store.begin_save(state)  # type: ignore[attr-defined]
    task.run()
    store.finish_save(task)  # type: ignore[attr-defined]
