"""Large files go in steps, with rests, and never under a reader or another name."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from commitlog.files import gone_files
from commitlog.files.disk_usage import DiskUsage
from commitlog.files.gone_files import REST_SECONDS, SIZE_MIN, STEP_BYTES, GoneFiles
from commitlog.files.system import OS_FILES

SIZE = 3 * STEP_BYTES + 5
WAIT = 30.0
#: A file system of 100 MiB without space.
FULL = os.statvfs_result((1 << 20, 1 << 20, 100, 0, 0, 0, 0, 0, 0, 255))


class Watched:
    """Files that go, with a clock that only rests move; `seen`: bytes left at each rest."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.seen: list[int] = []
        self.rests: list[float] = []
        self.then: Callable[[], None] = lambda: None
        self.files = GoneFiles(lambda: self.now, self._rest)

    def _rest(self, seconds: float) -> None:
        self.now += seconds
        self.rests.append(seconds)
        self.seen.append(self.files.bytes_on(self.folder))
        self.then()

    def left(self) -> int:
        """Bytes that are to go when all has ended."""
        assert self.files.wait(WAIT)
        return self.files.bytes_on(self.folder)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def large(path: Path, size: int = SIZE) -> Path:
    """A file with something at its beginning and end."""
    with path.open("wb") as file:
        file.write(b"begin")
        file.truncate(size - 3)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    return path


def test_a_large_file_loses_its_name_at_once_and_its_bytes_in_steps(watched: Watched) -> None:
    path = large(watched.folder / "state")
    watched.files.remove(path)
    assert not path.exists()
    assert watched.left() == 0
    assert watched.seen == [SIZE - STEP_BYTES, SIZE - 2 * STEP_BYTES, SIZE - 3 * STEP_BYTES, 0]
    assert watched.rests == [REST_SECONDS] * 4


def test_a_small_file_goes_at_once(watched: Watched) -> None:
    path = large(watched.folder / "small", SIZE_MIN - 1)
    watched.files.remove(path)
    assert not path.exists()
    assert (watched.left(), watched.seen) == (0, [])


def test_a_reader_reads_all_of_it_before_a_byte_goes(watched: Watched) -> None:
    path = large(watched.folder / "state")
    whole = path.read_bytes()
    file = path.open("rb")

    def read() -> None:
        if len(watched.rests) == 3 and not file.closed:
            assert file.read() == whole
            file.close()

    watched.then = read
    watched.files.remove(path)
    assert watched.left() == 0
    assert watched.seen[:3] == [SIZE] * 3
    assert file.closed
    assert watched.seen[-1] == 0


def test_a_map_of_it_stays_as_it_is(watched: Watched) -> None:
    path = large(watched.folder / "state")
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    watched.files.remove(path)
    assert watched.left() == 0, "it is left to its reader"
    assert watched.now >= gone_files.OPEN_SECONDS_MAX
    assert set(watched.seen) == {SIZE}
    assert mapped[-3:] == b"end"
    mapped.close()


def test_another_name_keeps_all_of_it(watched: Watched) -> None:
    path = large(watched.folder / "state")
    kept = watched.folder / "backup"
    os.link(path, kept)
    watched.files.remove(path)
    assert watched.left() == 0
    assert watched.seen == []
    assert kept.read_bytes().endswith(b"end")
    assert kept.stat().st_size == SIZE


def test_what_another_file_takes_the_place_of_goes_the_same_way(watched: Watched) -> None:
    path = large(watched.folder / "recent")
    newer = watched.folder / "newer"
    newer.write_bytes(b"newer")
    watched.files.replace(newer, path)
    assert path.read_bytes() == b"newer"
    assert watched.left() == 0
    assert watched.seen[0] == SIZE - STEP_BYTES


def test_a_name_that_cannot_go_keeps_its_file(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large(watched.folder / "state")

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, "read-only", str(path))

    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(OSError, match="read-only"):
            watched.files.remove(path)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert watched.left() == 0
    assert path.stat().st_size == SIZE


def test_where_the_system_cannot_tell_nothing_is_cut_and_the_wait_is_short(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, "not the owner")

    monkeypatch.setattr(gone_files.fcntl, "fcntl", refuse)
    watched.files.remove(large(watched.folder / "state"))
    assert watched.left() == 0
    assert set(watched.seen) == {SIZE}
    assert gone_files.UNKNOWN_SECONDS_MAX <= watched.now < gone_files.UNKNOWN_SECONDS_MAX + 1


def test_there_are_no_rests_while_much_is_to_go(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gone_files, "BYTES_MAX", STEP_BYTES + 5)
    watched.files.remove(large(watched.folder / "state"))
    assert watched.left() == 0
    assert watched.seen == [STEP_BYTES + 5, 5, 0]


def test_a_child_process_holds_none(watched: Watched) -> None:
    path = large(watched.folder / "state")
    with path.open("rb"):
        watched.files.remove(path)
        child = os.fork()
        if not child:
            gone_files.GONE_FILES.forget()
            watched.files.forget()
            os._exit(watched.files.bytes_on(watched.folder) != 0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert watched.left() == 0


def test_the_file_system_deletes_this_way_and_counts_what_goes_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large(tmp_path / "log")
    file = OS_FILES.open(path)
    OS_FILES.remove(path)
    assert gone_files.GONE_FILES.bytes_on(tmp_path) == SIZE, "it is open: nothing goes yet"
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _: FULL)
        assert OS_FILES.usage(tmp_path) == DiskUsage(total=100 << 20, free=SIZE)
    assert file.pread(3, SIZE - 3) == b"end"
    file.close()
    assert gone_files.GONE_FILES.wait(WAIT)
    assert gone_files.GONE_FILES.bytes_on(tmp_path) == 0
    OS_FILES.write_atomic(large(path), b"new", staging=tmp_path)
    assert gone_files.GONE_FILES.wait(WAIT)
    assert path.read_bytes() == b"new"
