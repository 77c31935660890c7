"""The only module that touches the operating system's files.

Everything above works on two ports, `File` and `FileSystem`. `OsFileSystem` is the real one;
the simulator has its own, which loses or tears what was not synced when it crashes.

    File        one open file of fixed size: pread, pwrite, view (mapped), datasync
    FileSystem  names: create, open, rename, remove, list, lock, sync of directories

Rules (docs/rules.md R12-R14):

* Writes go through `pwrite`, the mapping is only read: ENOSPC and EIO are `OSError`, not SIGBUS.
* `create` makes a file whole or not at all: it is made in a staging folder with its full length,
  synced, renamed into place, and both folders are synced. A crash leaves at most a file in the
  staging folder, which `create` replaces.
* A file has blocks for its beginning only, or, when asked, for all of it, filled with zeros, which
  makes later syncs cheaper. Its owner allocates in steps ahead of what it writes (allocation.py)
  and writes nothing beyond: a full disk is an error of the step, never of a write or a sync.
* Only `datasync` makes written bytes durable; it runs `os.fdatasync` on a descriptor that stays
  open, and may be called from a thread while other threads read and write.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from commitlog.files.content import Content, write_file
from commitlog.files.disk_usage import DiskUsage, usage_of
from commitlog.files.gone_files import GONE_FILES
from commitlog.files.held_locks import HeldLock, is_held

Buffer = bytes | bytearray | memoryview

_ZEROS = bytes(1 << 20)
#: Blocks of a new durable file: see allocation.py.
ALLOCATE_STEP = 8 << 20
_LOCK_TEXT = b"lock"


class File(Protocol):
    """One open file. Positions and sizes are bytes from the file's start."""

    @property
    def path(self) -> Path:
        """The path that the file was opened with; a rename does not change it."""

    @property
    def size(self) -> int:
        """Length of the file; fixed for files of a store."""
        ...

    @property
    def allocated(self) -> int:
        """The disk has given blocks for all bytes below: writing there needs no space."""
        ...

    def allocate(self, end: int) -> None:
        """Get blocks for all bytes below `end`. Raises OSError (ENOSPC); from any one thread."""
        ...

    def allocate_range(self, begin: int, end: int) -> None:
        """Get blocks for the bytes from `begin` to `end`; bytes before `begin` may have none.

        Raises OSError (ENOSPC); from any thread.
        """
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Read exactly `size` bytes, fewer only at the end of the file. Raises OSError."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` or raise OSError (then any part of it may be there)."""
        ...

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one after the other, as `pwrite` does."""
        ...

    def next_data(self, position: int) -> tuple[int, int]:
        """The next range at or behind `position` that may hold anything but zeros.

        (size, size) when there is none. Sparse files are read in time of what they hold.
        """
        ...

    def view(self, position: int, size: int) -> memoryview:
        """Read-only view of the mapping; shows later writes, too. Release it before `close`."""
        ...

    def datasync(self) -> None:
        """Make every byte written so far durable. Raises OSError; never retry after that."""
        ...

    def close(self) -> None:
        """Closes the descriptor and the mapping, without a sync; a second call has no effect."""


class Lock(Protocol):
    """A held lock on a file; `release` is idempotent."""

    def release(self) -> None:
        """Gives the lock up, so that any process may take it; the lock file stays."""


class FileSystem(Protocol):
    """Names and folders. Every path is absolute or relative to the working folder."""

    def open(self, path: Path, *, writable: bool = True) -> File:
        """Opens an existing file; `size` is its length now. Raises OSError (FileNotFoundError)."""

    def create(
        self, path: Path, size: int, *, staging: Path, zeros: bool = False, durable: bool = True
    ) -> File:
        """Make a new file of `size` zero bytes, durably; then open it for writing.

        `staging` is a folder on the same file system in which half-made files may lie.
        With `durable=False` (files that can be rebuilt) no blocks are allocated and nothing is
        synced: a crash may take it back until the caller has synced its content and its folders.
        Raises FileExistsError when `path` exists.
        """
        ...

    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        """Replace the file's content (content.py) so that a crash leaves the old or the new."""
        ...

    def read(self, path: Path) -> bytes:
        """Returns the whole file's bytes. Raises FileNotFoundError."""

    def exists(self, path: Path) -> bool:
        """True when there is a file or a folder at this path."""

    def is_dir(self, path: Path) -> bool:
        """True for a folder; False for a file or a path that does not exist."""

    def file_size(self, path: Path) -> int:
        """Length in bytes, parts without blocks included. Raises FileNotFoundError."""

    def modified_at(self, path: Path) -> float:
        """Seconds since 1970 of the last change of content."""
        ...

    def folders(self, path: Path) -> list[str]:
        """Sorted names of the folders in a folder; empty when it is missing."""
        ...

    def file_sizes(self, path: Path) -> dict[str, int]:
        """Size of every file in a folder, by sorted name; empty when the folder is missing."""
        ...

    def list(self, path: Path) -> list[str]:
        """Sorted names in a folder; empty when the folder is missing."""
        ...

    def make_dirs(self, path: Path, *, durable: bool = True) -> None:
        """Make a folder and its parents, durably unless told otherwise; fine when it exists."""
        ...

    def remove(self, path: Path) -> None:
        """Remove one file; the caller syncs the folder."""
        ...

    def remove_dir(self, path: Path) -> None:
        """Removes an empty folder. Raises OSError when entries are left in it."""

    def rename(self, source: Path, target: Path) -> None:
        """Replaces `target` atomically; durable only after `sync_dir` of both folders."""

    def sync_dir(self, path: Path) -> None:
        """Makes durable which names this folder holds, after create, rename or remove."""

    def lock(self, path: Path) -> Lock:
        """Exclusive `fcntl` record lock on bytes 0..1; it holds "lock" (docs/spec/store.md 5.2).

        Raises BlockingIOError when another process holds it.
        """
        ...

    def usage(self, path: Path) -> DiskUsage:
        """Total and free bytes of the file system that holds `path`; see `DiskUsage`."""


class OsFile:
    """`File` on the operating system: one descriptor, one read-only mapping made on first use."""

    __slots__ = ("_fd", "_map", "_path", "_size", "_view", "allocated")

    def __init__(self, path: Path, fd: int, size: int, allocated: int = 0) -> None:
        self._path, self._fd, self._size, self.allocated = path, fd, size, allocated
        self._map: mmap.mmap | None = None
        self._view: memoryview | None = None

    @property
    def path(self) -> Path:
        """As `File.path`."""
        return self._path

    @property
    def size(self) -> int:
        """Length in bytes, as it was when the file was created or opened."""
        return self._size

    def pread(self, size: int, position: int) -> bytes:
        """As `File.pread`; a short read is continued up to the end of the file."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]  # a short read is legal, though rare on local files
        got = len(data)
        while got < size:
            data = os.pread(self._fd, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        """As `File.pwrite`; continues a short write. Raises OSError if it gets no further."""
        written = os.pwrite(self._fd, data, position)
        total = len(data)
        while written < total:
            step = os.pwrite(self._fd, memoryview(data)[written:], position + written)
            if step == 0:
                raise OSError(errno.EIO, "a write made no progress", str(self._path))
            written += step

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """As `File.pwritev`; over 512 parts, or after a short write, all are joined and written."""
        if len(parts) == 1:
            self.pwrite(parts[0], position)
            return
        total = sum(len(part) for part in parts)
        if len(parts) <= 512 and os.pwritev(self._fd, parts, position) == total:
            return
        self.pwrite(b"".join(parts), position)

    def next_data(self, position: int) -> tuple[int, int]:
        """As `File.next_data`, by SEEK_DATA; where that fails, all from `position` is data."""
        try:
            begin = os.lseek(self._fd, position, os.SEEK_DATA)
            return begin, os.lseek(self._fd, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return self._size, self._size
            return min(position, self._size), self._size  # a file system that cannot tell

    def view(self, position: int, size: int) -> memoryview:
        """As `File.view`; the first call maps the whole file for reading."""
        if self._view is None:
            self._map = mmap.mmap(self._fd, self._size, access=mmap.ACCESS_READ)
            self._view = memoryview(self._map)
        return self._view[position : position + size]

    def allocate(self, end: int) -> None:
        """As `File.allocate`, by posix_fallocate; the content stays as it is."""
        if end > self.allocated:
            os.posix_fallocate(self._fd, self.allocated, end - self.allocated)
            self.allocated = max(self.allocated, end)

    def allocate_range(self, begin: int, end: int) -> None:
        """As `File.allocate_range`, by posix_fallocate; `allocated` does not change."""
        if end > begin:
            os.posix_fallocate(self._fd, begin, end - begin)

    def datasync(self) -> None:
        """As `File.datasync`, by fdatasync. After an OSError written bytes may be lost (D5)."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """As `File.close`; a view that a reader still holds keeps the mapping until it goes."""
        if self._fd < 0:
            return
        if self._view is not None:
            self._view.release()
            self._view = None
        if self._map is not None:
            # A reader may still hold a view; the map then goes when the last view does.
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
        os.close(self._fd)
        self._fd = -1


class OsFileSystem:
    """`FileSystem` on the operating system."""

    def open(self, path: Path, *, writable: bool = True) -> OsFile:
        """As `FileSystem.open`; `allocated` is estimated from the file's count of blocks."""
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        found = os.fstat(fd)
        blocks = found.st_blocks * 512  # and a few for the file system itself
        whole = blocks if blocks >= found.st_size else blocks - blocks % len(_ZEROS)
        return OsFile(path, fd, found.st_size, min(whole, found.st_size))

    def create(
        self, path: Path, size: int, *, staging: Path, zeros: bool = False, durable: bool = True
    ) -> OsFile:
        """As `FileSystem.create`: made in full length in `staging`, then renamed to `path`."""
        if path.exists():
            raise FileExistsError(errno.EEXIST, "the file exists", str(path))
        self.make_dirs(staging, durable=durable)
        self.make_dirs(path.parent, durable=durable)
        temporary = staging / f"{path.parent.name}-{path.name}.new"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o644)
        try:
            os.ftruncate(fd, size)
            allocated = (size if zeros else min(size, ALLOCATE_STEP)) if durable else 0
            if allocated:
                os.posix_fallocate(fd, 0, allocated)
            if zeros:
                _write_zeros(fd, size)
            if durable:
                os.fsync(fd)
            os.rename(temporary, path)
            if durable:
                self.sync_dir(path.parent)
                self.sync_dir(staging)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        return OsFile(path, fd, size, allocated)

    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        """As `FileSystem.write_atomic`: temporary file, fsync, rename, sync of both folders."""
        folder = staging or path.parent
        temporary = folder / f"{path.name}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_file(OsFile(temporary, fd, 0), data)
            os.fsync(fd)
        except BaseException:  # also of what makes the parts
            with contextlib.suppress(OSError):
                GONE_FILES.remove(temporary)
            raise
        finally:
            os.close(fd)
        GONE_FILES.replace(temporary, path)
        for changed in dict.fromkeys((path.parent, folder)):
            self.sync_dir(changed)

    def read(self, path: Path) -> bytes:
        """As `FileSystem.read`."""
        return path.read_bytes()

    def exists(self, path: Path) -> bool:
        """As `FileSystem.exists`; False for a link to a missing file."""
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        """As `FileSystem.is_dir`."""
        return path.is_dir()

    def file_size(self, path: Path) -> int:
        """As `FileSystem.file_size`."""
        return path.stat().st_size

    def modified_at(self, path: Path) -> float:
        """As `FileSystem.modified_at`. Raises FileNotFoundError."""
        return path.stat().st_mtime

    def folders(self, path: Path) -> list[str]:
        """Names of the sub-folders, sorted; [] for a folder that does not exist."""
        try:
            with os.scandir(path) as found:
                return sorted(entry.name for entry in found if entry.is_dir())
        except FileNotFoundError:
            return []

    def file_sizes(self, path: Path) -> dict[str, int]:
        """Bytes of each file by its name, sorted; {} for a folder that does not exist."""
        try:
            with os.scandir(path) as found:
                sizes = {e.name: e.stat().st_size for e in found if not e.is_dir()}
        except FileNotFoundError:
            return {}
        return sizes if len(sizes) < 2 else dict(sorted(sizes.items()))

    def list(self, path: Path) -> list[str]:
        """Names of files and folders, sorted; [] for a folder that does not exist."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dirs(self, path: Path, *, durable: bool = True) -> None:
        """As `FileSystem.make_dirs`: with `durable`, syncs the parent of each folder it makes."""
        if path.is_dir():
            return
        self.make_dirs(path.parent, durable=durable)
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        if durable:
            self.sync_dir(path.parent)

    def remove(self, path: Path) -> None:
        """Removes the name; a process with the file open can still read it (gone_files.py)."""
        GONE_FILES.remove(path)

    def remove_dir(self, path: Path) -> None:
        """As `FileSystem.remove_dir`."""
        path.rmdir()

    def rename(self, source: Path, target: Path) -> None:
        """As `FileSystem.rename`."""
        os.rename(source, target)

    def sync_dir(self, path: Path) -> None:
        """As `FileSystem.sync_dir`, by fsync of the folder."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: Path) -> Lock:
        """As `FileSystem.lock`, by lockf. BlockingIOError also when this process holds it."""
        if is_held(path):
            raise BlockingIOError(errno.EAGAIN, "this process holds the lock", str(path))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            if os.fstat(fd).st_size != len(_LOCK_TEXT):
                # Through this descriptor: closing any other one would drop the lock.
                os.pwrite(fd, _LOCK_TEXT, 0)
                os.fsync(fd)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(errno.EAGAIN, "the lock is held", str(path)) from error
            raise
        return HeldLock(fd)

    def usage(self, path: Path) -> DiskUsage:
        """As `FileSystem.usage`, by statvfs; space on its way back counts as free."""
        return usage_of(os.statvfs(path), GONE_FILES.bytes_on(path))


def _write_zeros(fd: int, size: int) -> None:
    position = 0
    while position < size:
        step = min(len(_ZEROS), size - position)
        position += os.pwrite(fd, memoryview(_ZEROS)[:step], position)


def is_out_of_space(error: OSError) -> bool:
    """The disk, or the share of it that this user may have, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def zero_memory(size: int) -> mmap.mmap:
    """`size` zero bytes that take memory page by page, as they are first written."""
    return mmap.mmap(-1, size)


OS_FILES = OsFileSystem()
