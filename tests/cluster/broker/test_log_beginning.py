"""States at the places where log files begin: kept until they are on disk, and copied once."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import cast

import pytest

from cluster.broker.kernel.apply.log_beginning import TAKEN_COUNT_MAX, LogBeginning
from cluster.core.apply import AppliedState
from dledger.core.types import Index
from dledger.log.file_log import FileLog
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import DATA_FILE_SIZE, FOLDER, fill, make


@dataclass(frozen=True)
class Copy:
    """Takes the place of a `CapturedState`."""

    data: bytes

    def encode(self) -> bytes:
        return self.data


class State:
    """What the beginning asks of a state: how far it is; how often it was copied."""

    def __init__(self) -> None:
        self.position, self.copies = 0, 0

    def capture(self) -> Copy:
        self.copies += 1
        return Copy(b"the state at %d" % self.position)


class World:
    def __init__(self) -> None:
        self.disk = CrashDisk()
        node = make(self.disk)
        self.log: FileLog = node.log
        self.folder = SnapshotFolder(self.disk, FOLDER)
        self.beginning = LogBeginning(self.log, self.folder)
        self.state = State()

    def reach(self, file: int) -> Index:
        """Everything in front of that log file is applied; which entry begins it."""
        first = self.log.index_at(file * DATA_FILE_SIZE)
        self.state.position = self.log.start_at(file * DATA_FILE_SIZE).end
        return first

    def try_chunk(self, file: int) -> None:
        self.beginning.fit_chunk(self.reach(file), cast(AppliedState, self.state), 100)


@pytest.fixture
def world() -> World:
    world = World()
    fill(world.log, 80)
    return world


def test_a_state_is_copied_once_however_often_its_chunk_is_tried(world: World) -> None:
    for _ in range(3):
        world.try_chunk(1)
    assert world.state.copies == 1
    world.beginning.begin_save()()
    world.try_chunk(1)
    world.beginning.begin_save()()
    assert world.state.copies == 1, "nor when it is on disk by then"
    world.try_chunk(2)
    assert world.state.copies == 2


def test_a_state_that_found_no_room_is_saved_when_there_is_some(world: World) -> None:
    world.try_chunk(1)
    world.disk.new_files_max = 0
    for _ in range(2):
        save = world.beginning.begin_save()
        with pytest.raises(OSError, match="no space left") as found:
            save()
        assert found.value.errno == errno.ENOSPC
    world.try_chunk(2)
    world.disk.new_files_max = None
    world.beginning.begin_save()()
    assert world.folder.positions() == [DATA_FILE_SIZE, 2 * DATA_FILE_SIZE]
    assert world.beginning.snapshot_index == world.log.index_at(2 * DATA_FILE_SIZE) - 1
    start = world.log.start_at(DATA_FILE_SIZE)
    assert world.folder.load(start) == b"the state at %d" % start.end
    world.disk.new_files_max = 0
    world.beginning.begin_save()()  # nothing is written twice


def test_few_states_wait_for_room(world: World) -> None:
    world.disk.new_files_max = 0
    for file in range(1, TAKEN_COUNT_MAX + 4):
        world.try_chunk(file)
    world.disk.new_files_max = None
    world.beginning.begin_save()()
    wanted = [file * DATA_FILE_SIZE for file in range(4, TAKEN_COUNT_MAX + 4)]
    assert world.folder.positions() == wanted
