"""States that come part by part: each part is written before the next is made."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import pytest_asyncio

from commitlog.files.content import Content
from commitlog.files.system import OS_FILES, OsFileSystem
from dledger import Entry, MachineSettings, RaftConfig, ReplicatedNode, ReplicatedStateMachine
from dledger.core.types import Index, Term
from dledger.log.log_start import LogStart
from dledger.machine import saving
from dledger.machine.state_machine import captured, in_parts
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.snapshots.state_file import PIECE
from tests.waiting import eventually, limit, within

from .group import MachineGroup
from .test_saving import FILE, anchor, fill_until

START = LogStart(Term(3), Index(9), 77, 4096, 4096)


class Streams(ReplicatedStateMachine[str, int]):
    """A line for each command; its state is made line by line, in the writing thread."""

    #: Called in that thread with the number of each line.
    before: Callable[[int], object] = lambda _: None
    closed = 0

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.restored = -1

    def apply(self, entry: Entry[str]) -> int:
        self.lines.append(f"{entry.index} {len(entry.command)}")
        return len(self.lines)

    def snapshot(self) -> Callable[[], Iterator[bytes]]:
        lines = tuple(self.lines)

        def parts() -> Iterator[bytes]:
            try:
                for number, line in enumerate(lines):
                    Streams.before(number)
                    yield f"{line}\n".encode()
            finally:
                Streams.closed += 1

        return parts

    def restore_from(self, state: BinaryIO) -> None:
        self.lines = [line.decode().rstrip("\n") for line in state]
        self.restored = len(self.lines)


Group = MachineGroup[str, int]


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Group]:
    monkeypatch.setattr(Streams, "closed", 0)
    made: Group = MachineGroup(tmp_path, new_address, Streams, 1)
    made.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, margin_files=0)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    made.configs = {name: replace(c, **small) for name, c in made.configs.items()}  # type: ignore[arg-type]
    yield made
    await made.close()


def machine(node: ReplicatedNode[str, int]) -> Streams:
    assert isinstance(node.machine, Streams)
    return node.machine


def staging(node: ReplicatedNode[str, int]) -> list[str]:
    return half_made(Path(node.config.data_dir))


def half_made(folder: Path) -> list[str]:
    return [path.name for path in (folder / "staging").glob("*.tmp")]


async def test_it_is_written_while_commands_go_on_and_restored(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the generator copied is what is written, whatever is applied before its end."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if number == 1:
            begun.set()
            assert go_on.wait(limit(60))

    monkeypatch.setattr(Streams, "before", wait)
    await group.start("n0")
    node = group.nodes["n0"]
    await fill_until(node, begun.is_set, "a state that is being written")
    for _ in range(20):
        await within(node.propose("while it is written"), "a result")
    assert anchor(node) < 0
    go_on.set()
    await fill_until(node, lambda: anchor(node) >= 0, "a shorter log")
    lines = machine(node).lines
    await group.stop("n0")
    await group.start("n0")
    again = machine(group.nodes["n0"])
    assert again.restored > 0
    await eventually(lambda: len(again.lines) >= len(lines), "the rest of the log", 60)
    assert again.lines == lines, "the state had nothing that is behind its place in the log"
    assert Streams.closed > 0


async def test_one_that_raises_in_the_middle_is_told_and_loses_nothing(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = True

    def halfway(number: int) -> None:
        if fails and number == 5:
            raise ValueError("halfway")

    monkeypatch.setattr(Streams, "before", halfway)
    await group.start("n0")
    node = group.nodes["n0"]
    await fill_until(node, lambda: node.snapshot_error, "an error")
    assert "the state could not be written: ValueError: halfway" in str(node.snapshot_error)
    assert (anchor(node), staging(node)) == (-1, []), "the log has all, and no half is left"
    assert Streams.closed > 0
    fails = False
    await fill_until(node, lambda: anchor(node) >= 0, "a shorter log")


async def test_a_node_that_is_closed_in_the_middle_waits_for_the_end(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if number == 1:
            begun.set()
            assert go_on.wait(limit(60))

    monkeypatch.setattr(Streams, "before", wait)
    await group.start("n0")
    node = group.nodes["n0"]
    last = await fill_until(node, begun.is_set, "a state that is being written")
    stopping = asyncio.ensure_future(group.stop("n0"))
    done, _ = await asyncio.wait({stopping}, timeout=limit(0.2))
    assert not done
    go_on.set()
    await within(stopping, "the end of the node")
    assert (Streams.closed, staging(node)) == (1, [])
    await group.start("n0")
    again = machine(group.nodes["n0"])
    assert again.restored > 0, "the state is whole, and a start begins with it"
    await eventually(lambda: len(again.lines) >= last, "the rest of the log", 60)


async def test_one_that_is_too_large_is_told(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "STATE_BYTES_MAX", 50)
    await group.start("n0")
    node = group.nodes["n0"]
    await fill_until(node, lambda: node.snapshot_error, "an error")
    assert "it has more than the 50 bytes that are allowed" in str(node.snapshot_error)
    assert half_made(Path(node.config.data_dir)) == []


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.dledger.machine.test_streamed_states import Streams, alone

def kill(number):
    if len(list(Path(sys.argv[1], "snapshots").glob("0*"))) and number == 3:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with alone(sys.argv[1], sys.argv[2]) as node:
        Streams.before = kill
        while True:
            print(await node.propose("x" * 2000), flush=True)

asyncio.run(main())
"""


def alone(folder: str, address: str) -> ReplicatedNode[str, int]:
    """A node of one, which keeps all log files."""
    sizes = {"data_file_size": FILE, "index_file_size": 640_000, "entry_size_max": FILE // 4}
    config = RaftConfig("n0", {"n0": (address, 20991)}, Path(folder), cluster_id="killed", **sizes)  # type: ignore[arg-type]
    return ReplicatedNode(config, Streams(), create=True)


async def test_a_process_that_is_killed_in_the_middle_loses_nothing(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    address, folder = new_address(), str(tmp_path / "n0")
    told = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED, folder, address],
        capture_output=True,
        text=True,
        timeout=limit(60),
        check=False,
    )
    assert told.returncode == -signal.SIGKILL, told.stderr
    (half,) = half_made(Path(folder))  # of the state that was being written
    passed_over = f"{10**9:020}.tmp"  # a place that no state has again
    os.rename(f"{folder}/staging/{half}", f"{folder}/staging/{passed_over}")
    last = int(told.stdout.split()[-1])
    async with alone(folder, address) as node:
        found = machine(node)
        assert 0 < found.restored <= last, "the state before"
        await eventually(lambda: len(found.lines) >= last, "all that was acknowledged", 60)
        assert passed_over not in half_made(Path(folder))


# -- without a node --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    (tmp_path / "staging").mkdir()
    return SnapshotFolder(OS_FILES, tmp_path)


@pytest.mark.parametrize("size", [0, 1, PIECE, 3 * PIECE + 5])
def test_the_file_is_the_same_as_that_of_the_bytes(
    folder: SnapshotFolder, tmp_path: Path, size: int
) -> None:
    state = os.urandom(size)
    folder.save(START, state)
    path = tmp_path / "snapshots" / f"{START.position:020}"
    whole = path.read_bytes()
    head = b"DLSS" + struct.pack(">IqqIIqq", 1, 3, 9, 77, zlib.crc32(state), size, 0)
    assert whole == head + zlib.crc32(head + state).to_bytes(4, "big") + state
    cuts = sorted({0, size // 3, size // 2, size})
    folder.save(START, iter([state[a:b] for a, b in zip([0, *cuts], [*cuts, size], strict=True)]))
    assert path.read_bytes() == whole
    folder.save_recent(START, iter([state]))
    assert (tmp_path / "snapshots" / "recent").read_bytes() == whole
    with folder.find(START).open() as file:
        assert file.read() == state


def test_no_more_than_a_piece_is_in_memory(folder: SnapshotFolder, tmp_path: Path) -> None:
    count = 40
    path = tmp_path / "staging" / f"{START.position:020}.tmp"
    sizes = []

    def parts() -> Iterator[bytes]:
        for number in range(count):
            sizes.append(path.stat().st_size - 52 if number else 0)
            yield bytes([number]) * PIECE

    tracemalloc.start()
    with in_parts(parts) as found:
        assert isinstance(found, Iterator)
        folder.save(START, found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sizes == [number * PIECE for number in range(count)], "each is written at once"
    assert peak < 4 * PIECE
    with folder.find(START).open() as file:
        assert all(file.read(PIECE) == bytes([number]) * PIECE for number in range(count))


class Closes:
    """Parts of the user's own, which are to be closed."""

    def __init__(self, fails: bool) -> None:
        self.left, self.fails, self.closed = 3, fails, 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.fails and self.left == 1:
            raise KeyError("gone")
        if not self.left:
            raise StopIteration
        self.left -= 1
        return b"part"

    def close(self) -> None:
        self.closed += 1


class Full(OsFileSystem):
    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        for _ in data.parts:  # type: ignore[union-attr]
            raise OSError(28, "no space left")


@pytest.mark.parametrize(
    ("fails", "disk", "raised"),
    [(False, OS_FILES, None), (True, OS_FILES, KeyError), (False, Full(), OSError)],
)
def test_parts_are_closed_whatever_happens(
    tmp_path: Path, fails: bool, disk: Any, raised: type[Exception] | None
) -> None:
    folder, made = SnapshotFolder(disk, tmp_path), Closes(fails)
    (tmp_path / "staging").mkdir()
    expected = contextlib.nullcontext() if raised is None else pytest.raises(raised)
    with expected, in_parts(lambda: made) as parts:
        folder.save(START, parts)
    assert made.closed == 1
    assert half_made(tmp_path) == []
    assert folder.positions() == ([] if raised else [START.position])


def test_an_iterator_that_snapshot_returns_is_read_at_once_and_closed() -> None:
    made = Closes(fails=False)
    assert captured(made) == (b"part",) * 3
    assert made.closed == 1
    made = Closes(fails=True)
    with pytest.raises(KeyError):
        captured(made)
    assert made.closed == 1


def test_parts_are_counted_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "STATE_BYTES_MAX", 10)
    left = iter([b"four"] * 4)
    with pytest.raises(ValueError, match="more than the 10 bytes"):
        list(saving._bounded(left))
    assert len(list(left)) == 1, "it is not read further"
    assert list(saving._bounded(iter([b"ten bytes."]))) == [b"ten bytes."]


def test_a_folder_keeps_all_but_half_made_states(folder: SnapshotFolder, tmp_path: Path) -> None:
    aside = tmp_path / "staging"
    names = ["recent.tmp", f"{7:020}.tmp", f"{7:020}.{9:020}.tmp", "gone.tmp", "notes"]
    for name in names:
        (aside / name).write_bytes(b"half")
    SnapshotFolder(OS_FILES, tmp_path).drop_half_made()
    assert sorted(os.listdir(aside)) == ["gone.tmp", "notes"]
