"""Log files have their full length and take blocks in steps ahead of what is written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from commitlog.files import system as files
from commitlog.files.system import ALLOCATE_STEP, OS_FILES, File, OsFile
from commitlog.segments.segment_log import SegmentLog
from dledger.log.file_row import FileRow

SIZE = 256 << 20
PIECE = bytes(range(256)) * (1 << 12)  # 1 MiB


@pytest.fixture
def row(tmp_path: Path) -> FileRow:
    made = FileRow(OS_FILES, tmp_path / "log", SIZE, staging=tmp_path / "staging")
    made.first_file(0)
    return made


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Call it with the bytes that the disk has left: an allocation of more fails."""
    real = os.posix_fallocate
    left = [1 << 60]

    def allocate(fd: int, begin: int, size: int) -> None:
        if size > left[0]:
            raise OSError(errno.ENOSPC, "no space left on device")
        left[0] -= size
        real(fd, begin, size)

    monkeypatch.setattr(files.os, "posix_fallocate", allocate)

    def fill(size: int) -> None:
        left[0] = size

    return fill


def blocks(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_new_log_file_has_its_length_and_few_blocks(row: FileRow) -> None:
    path = row.path(0)
    assert path.stat().st_size == SIZE
    assert ALLOCATE_STEP <= blocks(path) < ALLOCATE_STEP + (1 << 20)


def test_nothing_is_written_beyond_what_is_allocated(
    row: FileRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OsFile.pwrite

    def pwrite(self: OsFile, data: bytes, position: int) -> None:
        assert position + len(data) <= self.allocated
        assert position + len(data) <= blocks(self.path)
        real(self, data, position)

    monkeypatch.setattr(OsFile, "pwrite", pwrite)
    for number in range(40):
        row.write(PIECE, number << 20)
    row.extend()
    row.write(PIECE * 12, SIZE - len(PIECE))


def test_a_plain_log_writes_nothing_beyond_either(tmp_path: Path) -> None:
    log = SegmentLog(OS_FILES, tmp_path / "log", SIZE, staging=tmp_path / "staging")
    log.ensure(0)
    assert blocks(tmp_path / "log" / f"{0:020}") < ALLOCATE_STEP + (1 << 20)
    log.pwrite(PIECE * 12, 0)
    log.pwritev([PIECE, PIECE], len(PIECE) * 20)
    assert log._find(0).file.allocated >= len(PIECE) * 22
    log.close()


def test_a_full_disk_is_an_error_and_nothing_is_written(
    row: FileRow, full: Callable[[int], None]
) -> None:
    full(0)
    row.write(PIECE, ALLOCATE_STEP - len(PIECE))
    with pytest.raises(OSError, match="no space") as raised:
        row.write(PIECE, ALLOCATE_STEP - 10)
    assert raised.value.errno == errno.ENOSPC
    assert row.read(ALLOCATE_STEP, len(PIECE)) == bytes(len(PIECE))
    full(1 << 40)
    row.write(PIECE, ALLOCATE_STEP)


def test_the_last_blocks_of_a_disk_are_used(row: FileRow, full: Callable[[int], None]) -> None:
    full(2 << 20)
    row.write(PIECE, ALLOCATE_STEP)
    assert row.read(ALLOCATE_STEP, len(PIECE)) == PIECE


def test_blocks_are_got_ahead_and_again_after_a_full_disk(
    row: FileRow, full: Callable[[int], None]
) -> None:
    assert row.begin_prepare(ALLOCATE_STEP // 2) is None
    task = row.begin_prepare(ALLOCATE_STEP // 2 + 1)
    assert task is not None
    full(0)
    with pytest.raises(OSError, match="no space"):
        task.run()
    assert row.begin_prepare(ALLOCATE_STEP // 2 + 1) is None, "it is under way"
    full(1 << 40)
    task.run()
    assert row.file_at(0)[0].allocated == 2 * ALLOCATE_STEP
    assert row.begin_prepare(ALLOCATE_STEP // 2 + 1) is None


def test_a_step_that_comes_after_the_close_touches_no_file(row: FileRow) -> None:
    task = row.begin_prepare(ALLOCATE_STEP)
    assert task is not None
    row.close()
    task.run()
    assert blocks(row.path(0)) < ALLOCATE_STEP + (1 << 20)


def test_an_opened_file_knows_its_blocks(row: FileRow) -> None:
    row.write(PIECE, 20 << 20)
    row.close()
    opened: File = OS_FILES.open(row.path(0))
    assert 21 << 20 <= opened.allocated <= blocks(opened.path)
    opened.close()


def test_space_for_a_write_is_made_once_and_asked_for_again_after_a_full_disk(
    row: FileRow, full: Callable[[int], None]
) -> None:
    row.make_space(0, ALLOCATE_STEP)
    assert row.begin_space(0, ALLOCATE_STEP) is None
    full(0)
    with pytest.raises(OSError, match="no space"):
        row.make_space(ALLOCATE_STEP - 5, ALLOCATE_STEP + 1)
    row.make_space(0, ALLOCATE_STEP)
    task = row.begin_space(ALLOCATE_STEP - 5, ALLOCATE_STEP + 1)
    assert task is not None
    with pytest.raises(OSError, match="no space"):
        task.run()
    full(SIZE)
    task.run()
    assert row.begin_space(ALLOCATE_STEP - 5, ALLOCATE_STEP + 1) is None
    row.make_space(ALLOCATE_STEP - 5, ALLOCATE_STEP + 1)


def test_a_file_for_which_there_was_no_space_is_made_once_there_is(
    row: FileRow, full: Callable[[int], None]
) -> None:
    full(0)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            row.make_space(SIZE - 5, SIZE + 5)
    assert len(row) == 1
    row.make_space(SIZE // 2, SIZE // 2)
    full(2 * SIZE)
    task = row.begin_space(SIZE, SIZE + 5)
    assert task is not None
    task.run()
    row.make_space(SIZE, SIZE + 5)
    assert len(row) == 2
    assert row.begin_space(SIZE, SIZE + 5) is None


def test_the_rest_of_a_new_file_is_zeroed_without_reading_its_holes(
    row: FileRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written behind the end goes, wherever it stands; the rest is not even read."""
    end, far = 5_000, SIZE - (64 << 20) - 100
    for position in (0, end - 1, end, far):
        row.write(PIECE[: 1 << 12] + b"x", position)
    read: list[int] = []
    pread = OsFile.pread

    def counted(file: OsFile, size: int, position: int) -> bytes:
        read.append(size)
        return pread(file, size, position)

    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "pread", counted)
        (touched,) = row.zero_rest(end)
        assert touched.path == row.path(0)
        assert row.zero_rest(end + (64 << 20)) == []
    assert sum(read) < SIZE // 8
    assert row.read(end - 1, 1) == PIECE[:1], "what is in use stays"
    assert row.read(end, 9_000) == bytes(9_000)
    assert row.read(far - 10, 9_000) == bytes(9_000)
    row.close()
