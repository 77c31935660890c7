"""Lock, abort and checkpoint files (docs/spec/store.md 5.1, 5.2)."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.errors import StoreFailed, StoreLocked
from commitlog.files.system import OS_FILES, OsFileSystem
from commitlog.recovery.checkpoint import FILE_SIZE, Checkpoint
from commitlog.store.layout import (
    StoreLayout,
    lock_store,
    read_checkpoint,
    remove_abort,
    was_clean,
    write_abort,
    write_checkpoint,
)


def test_the_lock_is_javas(tmp_path: Path) -> None:
    """An exclusive record lock on byte 0; the file holds "lock" and stays."""
    root = tmp_path / "store"
    lock = lock_store(OS_FILES, root)
    code = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "try: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "except OSError: sys.exit(7)"
    )
    command = [sys.executable, "-c", code, str(root / "lock")]
    assert subprocess.run(command, check=False).returncode == 7
    with pytest.raises(StoreLocked):
        lock_store(OS_FILES, root)
    lock.release()
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0
    assert (root / "lock").read_bytes() == b"lock"
    lock_store(OS_FILES, root).release()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFailed, match="make it writable"):
        lock_store(OS_FILES, tmp_path / "file" / "store")


def test_abort(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    layout.staging.mkdir()
    assert was_clean(OS_FILES, layout)
    write_abort(OS_FILES, layout, 123)
    assert not was_clean(OS_FILES, layout)
    assert layout.abort.read_bytes() == b"123"
    assert layout.abort_backup.read_bytes() == b""
    write_abort(OS_FILES, layout, 45)
    assert layout.abort_backup.read_bytes() == b"123"
    remove_abort(OS_FILES, layout)
    remove_abort(OS_FILES, layout)
    assert was_clean(OS_FILES, layout)
    assert layout.abort_backup.exists()
    assert not list(layout.staging.iterdir())


@pytest.mark.parametrize("was_open", [False, True])
def test_on_a_full_disk_the_note_that_a_store_is_open_is_empty_or_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_open: bool
) -> None:
    layout = StoreLayout(tmp_path)
    OS_FILES.make_dirs(layout.staging)
    if was_open:
        write_abort(OS_FILES, layout, 123)
    write = type(OS_FILES).write_atomic

    def without_blocks(
        self: OsFileSystem, path: Path, data: bytes, *, staging: Path | None = None
    ) -> None:
        if data:
            raise OSError(errno.ENOSPC, "no space left on device")
        write(self, path, data, staging=staging)

    monkeypatch.setattr(type(OS_FILES), "write_atomic", without_blocks)
    write_abort(OS_FILES, layout, 45)
    assert layout.abort.read_bytes() == (b"123" if was_open else b"")


def test_checkpoint(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    layout.staging.mkdir()
    assert read_checkpoint(OS_FILES, layout) == Checkpoint()
    write_checkpoint(OS_FILES, layout, Checkpoint(1, 2, 3, 4, 5))
    inode = layout.checkpoint.stat().st_ino
    write_checkpoint(OS_FILES, layout, Checkpoint(6, 7, 8, 9, 10))
    assert layout.checkpoint.stat().st_ino == inode  # in place, as Java's mapping does
    assert read_checkpoint(OS_FILES, layout) == Checkpoint(6, 7, 8, 9, 10)
    assert layout.checkpoint.stat().st_size == FILE_SIZE
    layout.checkpoint.write_bytes(b"short")
    assert read_checkpoint(OS_FILES, layout) == Checkpoint()
    write_checkpoint(OS_FILES, layout, Checkpoint(1, 1, 1, 1, 1))
    assert layout.checkpoint.stat().st_size == FILE_SIZE
