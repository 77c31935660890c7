"""States as files: neither the writer nor the restart nor who is sent one holds all of it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
import pytest_asyncio

from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES
from dledger import Entry, ReplicatedStateMachine
from dledger.core.types import Index, Term
from dledger.log.log_start import LogStart
from dledger.snapshots import state_file
from dledger.snapshots.rests import Rests
from dledger.snapshots.snapshot import Part, snapshot_of
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.snapshots.state_file import FileParts, Joined, buffered
from tests.waiting import eventually

from .group import MachineGroup
from .test_saving import FILE, anchor, fill_until

START = LogStart(Term(3), Index(9), 77, 4096, 4096)
STATE = bytes(range(256)) * 40


class InFiles(ReplicatedStateMachine[str, int]):
    """Its state is a file of a line for each command, and is restored line by line."""

    folder: Path
    made = 0

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.restored = 0
        InFiles.made += 1
        self.path = self.folder / f"state {InFiles.made}"

    def apply(self, entry: Entry[str]) -> int:
        self.lines.append(f"{entry.index} {len(entry.command)}")
        return len(self.lines)

    def snapshot(self) -> Callable[[], Path]:
        lines = tuple(self.lines)

        def write() -> Path:
            self.path.write_text("".join(f"{line}\n" for line in lines))
            return self.path

        return write

    def restore_from(self, state: BinaryIO) -> None:
        self.lines = [line.decode().rstrip("\n") for line in state]
        self.restored += 1


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MachineGroup[str, int]]:
    monkeypatch.setattr(InFiles, "folder", tmp_path, raising=False)
    made: MachineGroup[str, int] = MachineGroup(tmp_path, new_address, InFiles)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    made.configs = {name: replace(c, **small) for name, c in made.configs.items()}  # type: ignore[arg-type]
    yield made
    await made.close()


def machine(group: MachineGroup[str, int], name: str) -> InFiles:
    found = group.nodes[name].machine
    assert isinstance(found, InFiles)
    return found


@pytest.fixture
def rested(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that might rest, once for each time."""
    threads: list[threading.Thread] = []
    between = Rests.between

    def noted(rests: Rests) -> None:
        threads.append(threading.current_thread())
        between(rests)

    monkeypatch.setattr(Rests, "between", noted)
    return threads


async def test_a_state_in_files_is_kept_sent_and_restored(
    group: MachineGroup[str, int], rested: list[threading.Thread]
) -> None:
    await group.start("n0", "n1")
    node = await group.leader()
    await fill_until(node, lambda: anchor(node) >= 0, "a shorter log")
    await group.start("n2")  # is sent the state, as the log's beginning is gone
    assert not rested
    last = await fill_until(node, lambda: machine(group, "n2").restored, "a state that was sent")
    assert len(rested) > len(machine(group, "n2").lines) // 4, "rests between lines"
    await eventually(lambda: len(machine(group, "n2").lines) >= last, "all that is applied", 60)
    lines = machine(group, "n2").lines
    assert lines == machine(group, node.config.node_id).lines[: len(lines)]
    await group.stop("n0")
    rested.clear()
    await group.start("n0")
    assert machine(group, "n0").restored == 1
    assert len(rested) > 10, "rests between lines at a start, too"
    assert threading.main_thread() not in rested
    await eventually(lambda: len(machine(group, "n0").lines) >= last, "the rest of the log", 60)
    lines = machine(group, "n0").lines
    assert lines == machine(group, "n2").lines[: len(lines)]


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    (tmp_path / "snapshots" / "staging").mkdir(parents=True)
    (tmp_path / "staging").mkdir()
    return SnapshotFolder(OS_FILES, tmp_path)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes that are read at once, with pieces of 1,000 bytes."""
    monkeypatch.setattr(state_file, "PIECE", 1000)
    sizes: list[int] = []
    read = state_file._Reading._next

    def noted(reading: state_file._Reading, size: int) -> bytes:
        data = read(reading, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(state_file._Reading, "_next", noted)
    return sizes


def test_a_state_is_read_in_pieces_and_is_the_same_file(
    folder: SnapshotFolder, pieces: list[int], tmp_path: Path
) -> None:
    (tmp_path / "made").write_bytes(STATE)
    folder.save(START, Joined([b"head"], FileParts(tmp_path / "made")))
    assert folder.load(START) == b"head" + STATE, "the format is as before"
    with folder.find(START).open() as file:
        assert (file.read(4), file.read()) == (b"head", STATE)
    del pieces[:]
    with folder.find(START).open() as file:
        assert buffered(file).readline(300) == (b"head" + STATE)[:15]
    with folder.find(START).open() as file:
        assert b"".join(iter(lambda: file.read(500) or b"", b"")) == b"head" + STATE
    assert max(pieces) <= 1000
    folder.save_recent(START, [STATE])
    with folder.find_recent(START).open() as file:
        assert file.read() == STATE


def test_bytes_that_change_while_they_are_read_are_found(
    folder: SnapshotFolder, pieces: list[int], tmp_path: Path
) -> None:
    folder.save(START, STATE)
    found = folder.find(START)
    (path,) = (tmp_path / "snapshots").glob("0*")
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"rotten")
    with found.open() as reading, pytest.raises(StoreDamaged, match="changed while it was read"):
        list(iter(lambda: reading.read(500), b""))
    with pytest.raises(StoreDamaged):
        folder.find(START)


def test_a_state_that_is_sent_becomes_a_file_part_by_part(
    folder: SnapshotFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [0]
    read = SnapshotFolder.read_part

    def noted(found: SnapshotFolder, name: str) -> Part | None:
        part = read(found, name)
        if part is not None:
            held[0] = max(held[0], len(part.data))
        return part

    monkeypatch.setattr(SnapshotFolder, "read_part", noted)
    wanted = snapshot_of(START, [STATE])
    for offset in range(0, len(STATE), 1024):
        part = Part(wanted, offset, STATE[offset : offset + 1024])
        have, whole = folder.receive(START.position, part)
    assert (have, whole) == (len(STATE), True)
    assert held[0] == 1024, "one part at a time"
    monkeypatch.undo()
    assert folder.load(START) == STATE
