"""The operating system's files: whole or not at all, zero, and what `close` may not take away."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from commitlog.files.disk_usage import DiskUsage, usage_of
from commitlog.files.system import OS_FILES, OsFileSystem, zero_memory


def test_a_new_file_is_allocated_and_zero_whatever_a_crash_left(tmp_path: Path) -> None:
    """R14: nothing of an old file shows through."""
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "log-00.new").write_bytes(b"half made, with old records in it" * 100)
    file = OS_FILES.create(tmp_path / "log" / "00", 8192, staging=staging)
    assert file.size == 8192
    assert file.pread(8192, 0) == bytes(8192)
    assert (tmp_path / "log" / "00").stat().st_blocks * 512 >= 8192
    assert not list(staging.iterdir())
    file.close()
    with pytest.raises(FileExistsError):
        OS_FILES.create(tmp_path / "log" / "00", 8192, staging=staging)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_kinds_of_new_files_read_alike(tmp_path: Path, zeros: bool, durable: bool) -> None:
    file = OS_FILES.create(
        tmp_path / "f", 3_000_000, staging=tmp_path / "s", zeros=zeros, durable=durable
    )
    assert file.pread(3_000_001, 0) == bytes(3_000_000)
    file.close()


def test_a_file_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="no space"):
        OS_FILES.create(tmp_path / "log" / "00", 8192, staging=tmp_path / "staging")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_new_files_are_synced_before_and_after_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R13: file, rename, both folders; in that order."""
    events: list[str] = []
    fsync, rename = os.fsync, os.rename

    def watch_fsync(fd: int) -> None:
        events.append("sync " + Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    def watch_rename(source: Path, target: Path) -> None:
        events.append(f"rename to {Path(target).name}")
        rename(source, target)

    (tmp_path / "log").mkdir()
    (tmp_path / "staging").mkdir()
    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "rename", watch_rename)
    OS_FILES.create(tmp_path / "log" / "00", 4096, staging=tmp_path / "staging").close()
    assert events == ["sync log-00.new", "rename to 00", "sync log", "sync staging"]
    events.clear()
    OS_FILES.write_atomic(tmp_path / "log" / "mark", b"x", staging=tmp_path / "staging")
    assert events == ["sync mark.tmp", "rename to mark", "sync log", "sync staging"]


def test_writes_are_seen_by_reads_and_views(tmp_path: Path) -> None:
    file = OS_FILES.create(tmp_path / "f", 10_000, staging=tmp_path / "s")
    view = file.view(100, 50)
    file.pwrite(memoryview(b"abc"), 100)
    file.pwritev([b"d", bytearray(b"ef"), memoryview(b"g")], 103)
    assert bytes(view[:8]) == b"abcdefg\0"
    assert view.readonly
    parts = [b"%d" % (n % 10) for n in range(1500)]  # more than one call may take
    file.pwritev(parts, 2000)
    assert file.pread(1500, 2000) == b"".join(parts)
    assert file.pread(100, 9990) == bytes(10)
    assert file.pread(10, 20_000) == b""
    file.datasync()
    file.close()
    file.close()
    assert bytes(view[:3]) == b"abc"  # a reader that still holds a view keeps the mapping


def test_writing_without_permission_is_an_error(tmp_path: Path) -> None:
    OS_FILES.create(tmp_path / "f", 100, staging=tmp_path / "s").close()
    file = OS_FILES.open(tmp_path / "f", writable=False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwrite(b"x", 0)
    file.close()


def test_a_lock_belongs_to_one_opener(tmp_path: Path) -> None:
    first = OS_FILES.lock(tmp_path / "lock")
    for files in (OS_FILES, OsFileSystem()):
        with pytest.raises(BlockingIOError):
            files.lock(tmp_path / "lock")
    blocked: list[bool] = []

    def other_thread() -> None:
        try:
            OS_FILES.lock(tmp_path / "lock").release()
        except BlockingIOError:
            blocked.append(True)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert blocked == [True]
    first.release()
    OS_FILES.lock(tmp_path / "lock").release()


def test_names(tmp_path: Path) -> None:
    assert OS_FILES.list(tmp_path / "nothing") == []
    OS_FILES.make_dirs(tmp_path / "a" / "b")
    OS_FILES.make_dirs(tmp_path / "a" / "b")
    OS_FILES.make_dirs(tmp_path / "a" / "c", durable=False)
    assert OS_FILES.list(tmp_path / "a") == ["b", "c"]
    OS_FILES.write_atomic(tmp_path / "a" / "f", b"one")
    OS_FILES.write_atomic(tmp_path / "a" / "f", b"two")
    assert OS_FILES.read(tmp_path / "a" / "f") == b"two"
    assert OS_FILES.file_size(tmp_path / "a" / "f") == 3
    OS_FILES.rename(tmp_path / "a" / "f", tmp_path / "a" / "g")
    assert not OS_FILES.exists(tmp_path / "a" / "f")
    OS_FILES.remove(tmp_path / "a" / "g")
    OS_FILES.remove_dir(tmp_path / "a" / "b")
    assert OS_FILES.is_dir(tmp_path / "a")
    usage = OS_FILES.usage(tmp_path)
    assert 0 < usage.free <= usage.total


def test_blocks_reserved_for_root_are_neither_used_nor_free() -> None:
    """Of 100 blocks 60 are used and 30 are kept for root: 10 are left, so 60 of 70 are used."""
    blocks, free, available = 100, 40, 10
    stat = os.statvfs_result((4096, 1024, blocks, free, available, 0, 0, 0, 0, 255))
    assert usage_of(stat) == DiskUsage(total=70 * 1024, free=10 * 1024)
    assert usage_of(stat).used_ratio == pytest.approx(60 / 70)
    full = os.statvfs_result((4096, 1024, blocks, 30, 0, 0, 0, 0, 0, 255))
    assert usage_of(full).used_ratio == 1.0, "only root could write on"
    assert usage_of(os.statvfs_result((0,) * 10)).used_ratio == 0.0


def test_the_used_share_is_what_df_says(tmp_path: Path) -> None:
    """On this machine's own file system, between two looks, since others write to it meanwhile."""
    before = OS_FILES.usage(tmp_path).used_ratio
    command = ["df", "-P", "-k", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = OS_FILES.usage(tmp_path).used_ratio
    used, available, percent = said.splitlines()[-1].split()[2:5]
    slack = 0.002  # what is written while df starts
    assert min(before, after) - slack <= int(percent.rstrip("%")) / 100
    assert max(before, after) + slack >= (int(percent.rstrip("%")) - 1) / 100, "df rounds up"
    exact = int(used) / (int(used) + int(available))
    assert min(before, after) - slack <= exact <= max(before, after) + slack


def test_memory_is_zero_and_writable() -> None:
    memory = zero_memory(10_000)
    assert bytes(memory) == bytes(10_000)
    memory[5] = 7
    assert memory[5] == 7
    memory.close()
