"""Where a layer's tests write: in memory only with room to spare, and what must stay is on disk."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.layers import scratch
from scripts.layers.plan import LONG, SUITE


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the file system in memory."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(scratch, "MEMORY", folder)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(scratch.ASKED, raising=False)
    return folder


def test_only_the_suite_of_all_layers_writes_to_memory() -> None:
    assert SUITE.in_memory
    assert not any(layer.in_memory for layer in LONG)


@pytest.mark.parametrize("room", [True, False])
def test_folder_is_in_memory_where_there_is_room(
    memory: Path, monkeypatch: pytest.MonkeyPatch, room: bool
) -> None:
    monkeypatch.setattr(scratch, "_memory_has_room", lambda: room)
    assert (scratch.make(in_memory=True).parent == memory) is room
    assert scratch.make().parent == memory.parent


def test_folder_is_on_the_disk_when_memory_is_refused(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_memory_has_room", lambda: True)
    monkeypatch.setenv(scratch.ASKED, "0")
    assert scratch.make(in_memory=True).parent == memory.parent


def test_memory_has_no_room_when_it_is_no_file_system_or_too_small(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not scratch._memory_has_room()
    monkeypatch.setattr(scratch, "MEMORY", Path("/dev/shm"))
    monkeypatch.setattr(scratch, "FILES_MAX", 1 << 60)
    assert not scratch._memory_has_room()


def test_what_failed_tests_left_moves_to_the_disk(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = memory / "dledger-1-x"
    (left / "n0").mkdir(parents=True)
    (left / "n0" / "log").write_bytes(b"entries")
    (left / "current").symlink_to("n0")
    with socket.socket(socket.AF_UNIX) as bound:
        with monkeypatch.context() as patch:
            patch.chdir(left)  # a whole path may be longer than a socket's may be
            bound.bind("s")
        kept = scratch.kept(left)
    assert kept.parent == memory.parent
    assert (kept / "current" / "log").read_bytes() == b"entries"
    assert (kept / "current").is_symlink()
    assert not left.exists()
    assert scratch.kept(kept) == kept


def test_a_file_of_holes_takes_no_space_where_it_is_kept(memory: Path) -> None:
    """A test that failed left the logs of three nodes once: 21 GiB on the disk, few of bytes."""
    left = memory / "dledger-1-x"
    left.mkdir()
    with (left / "log").open("wb") as file:
        file.write(b"first")
        file.seek(1 << 30)
        file.write(b"last")
        file.truncate(2 << 30)
    for name, size in ("empty", 0), ("hole", 1 << 30):
        (left / name).touch()
        os.truncate(left / name, size)
    kept = scratch.kept(left)
    sizes = {path.name: path.stat().st_size for path in kept.iterdir()}
    assert sizes == {"log": 2 << 30, "empty": 0, "hole": 1 << 30}
    assert sum(path.stat().st_blocks * 512 for path in kept.iterdir()) < 1 << 20
    with (kept / "log").open("rb") as file:
        assert file.read(6) == b"first\0"
        file.seek(1 << 30)
        assert file.read(5) == b"last\0"


def test_memory_of_a_run_that_has_ended_is_given_back(memory: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone, here, others = (
        memory / name for name in (f"dledger-{ended.pid}-a", f"dledger-{os.getpid()}-b", "x-1-c")
    )
    for folder in (gone, here, others):
        folder.mkdir()
        (folder / "file").touch()
    scratch.remove_those_of_ended_runs()
    assert [folder.exists() for folder in (gone, here, others)] == [False, True, True]
