"""A disk in memory that forgets: `FileSystem` for tests.

Writes are seen at once and last only once `datasync` ran. `crash` forgets each write that was not
synced, or keeps it, or keeps some of its 512-byte sectors; the same for names that no `sync_dir`
covered (those in the order they were made). `create` and `write_atomic` are whole or nothing, as
their contract says. `fuse` counts operations that change something: at 0 the power goes, with the
operation not done or half done. `changes` and `reads` refuse instead, as a disk does that is
broken, full or mounted read-only; pages of a sync that failed look clean and are not on disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

from commitlog.files.content import Content, joined
from commitlog.files.disk_usage import DiskUsage
from commitlog.files.system import Buffer, Lock

SECTOR_SIZE = 512


class PowerCut(BaseException):
    """The machine stopped here."""


class Inode:
    """Bytes as seen, bytes as on disk, and the writes between the two."""

    def __init__(self, data: bytes) -> None:
        self.seen = bytearray(data)
        self.kept = bytearray(data)
        self.pending: list[tuple[int, bytes]] = []


class CrashFile:
    def __init__(self, disk: CrashDisk, path: Path, inode: Inode) -> None:
        self._disk, self.path, self._inode = disk, path, inode
        self._boot = disk.boot

    @property
    def size(self) -> int:
        return len(self._inode.seen)

    def pread(self, size: int, position: int) -> bytes:
        assert self._boot == self._disk.boot, "a file that was open before the crash"
        self._disk.reads.spend()
        return bytes(self._inode.seen[position : position + size])

    @property
    def allocated(self) -> int:
        return self.size

    def allocate(self, end: int) -> None:
        """All of it is, from the beginning: room is asked for when a file is made."""

    def allocate_range(self, begin: int, end: int) -> None:
        """All of it is."""

    def next_data(self, position: int) -> tuple[int, int]:
        return min(position, self.size), self.size

    def pwrite(self, data: Buffer, position: int) -> None:
        assert self._boot == self._disk.boot, "a file that was open before the crash"
        data = bytes(data)
        assert position + len(data) <= self.size, "a file never grows"
        half = self._disk.spend(len(data))
        self._put(data if half is None else data[:half], position)
        if half is not None:
            raise self._disk.trip()

    def _put(self, data: bytes, position: int) -> None:
        self._inode.seen[position : position + len(data)] = data
        self._inode.pending.append((position, data))

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def view(self, position: int, size: int) -> memoryview:
        return memoryview(bytes(self._inode.seen[position : position + size]))

    def datasync(self) -> None:
        assert self._boot == self._disk.boot, "a file that was open before the crash"
        self._disk.sync_count += 1
        try:
            if self._disk.spend(0) is not None:
                raise self._disk.trip()
            if self._disk.sync_error:
                raise OSError(errno.EIO, "the disk refused", str(self.path))
        except OSError:
            self._inode.pending.clear()  # the pages look clean and are not on disk
            raise
        for position, data in self._inode.pending:
            self._inode.kept[position : position + len(data)] = data
        self._inode.pending.clear()

    def close(self) -> None:
        pass


class _Lock:
    def __init__(self, disk: CrashDisk, path: Path) -> None:
        self._disk, self._path = disk, path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class Refusals:
    """Calls of one kind, the n-th of which fails with `errno`: it alone, or all from then on."""

    def __init__(self) -> None:
        self.calls = 0
        self._at = self._until = 1 << 62
        self._errno = 0

    def set(self, after: int, number: int, *, once: bool) -> None:
        """Let `after` more calls succeed."""
        self._at = self.calls + after
        self._until = self._at + 1 if once else 1 << 62
        self._errno = number

    def spend(self) -> None:
        self.calls += 1
        if self._at < self.calls <= self._until:
            raise OSError(self._errno, os.strerror(self._errno))


class CrashDisk:
    """The file system. Set `fuse` to the number of changing operations that still succeed."""

    def __init__(self) -> None:
        self.names: dict[Path, Inode] = {}
        self.kept_names: dict[Path, Inode] = {}
        self.pending_names: list[tuple[Path, Inode | None]] = []
        self.folders_made: set[Path] = set()
        self.locks: set[Path] = set()
        self.fuse: int | None = None
        self.random = Random(0)
        self.sync_error = False
        self.write_error = False
        self.sync_count = 0
        self.operations = 0
        self.boot = 0
        self.dead = False
        self.changes, self.reads = Refusals(), Refusals()
        self.new_files_max: int | None = None  # there is room for so many more

    def spend(self, size: int) -> int | None:
        """Count one operation; the number of bytes that still get through when the power goes."""
        if self.dead:
            raise PowerCut
        if self.write_error and size:
            raise OSError(errno.ENOSPC, "no space left")
        self.changes.spend()
        self.operations += 1
        if self.fuse is None:
            return None
        self.fuse -= 1
        return self.random.choice((0, size // 2, size)) if self.fuse < 0 else None

    def trip(self) -> PowerCut:
        self.dead = True
        return PowerCut()

    def _step(self) -> None:
        if self.spend(0) is not None:
            raise self.trip()

    def crash(self, *, keep: float) -> None:
        """Lose each un-synced sector or name with chance 1 - keep, and start the machine again."""
        for inode in self._inodes():
            for position, data in inode.pending:
                for start in range(0, len(data), SECTOR_SIZE):
                    if self.random.random() < keep:
                        part = data[start : start + SECTOR_SIZE]
                        inode.kept[position + start : position + start + len(part)] = part
            inode.pending.clear()
            inode.seen[:] = inode.kept
        for path, target in self.pending_names:
            if self.random.random() >= keep:
                break  # a journal keeps them in order
            self._keep_name(path, target)
        self.names = dict(self.kept_names)
        self.pending_names.clear()
        self.restart()

    def restart(self) -> None:
        """The process died and the machine did not: nothing is lost."""
        self.boot += 1
        self.dead, self.fuse = False, None
        self.locks.clear()

    def _inodes(self) -> list[Inode]:
        known = [*self.names.values(), *self.kept_names.values()]
        return list({id(inode): inode for inode in known}.values())

    def _keep_name(self, path: Path, inode: Inode | None) -> None:
        if inode is None:
            self.kept_names.pop(path, None)
        else:
            self.kept_names[path] = inode

    def open(self, path: Path, *, writable: bool = True) -> CrashFile:
        return CrashFile(self, path, self._find(path))

    def _find(self, path: Path) -> Inode:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return self.names[path]

    def create(
        self, path: Path, size: int, *, staging: Path, zeros: bool = False, durable: bool = True
    ) -> CrashFile:
        assert durable, "files of a raft log are made durably"
        if path in self.names:
            raise FileExistsError(errno.EEXIST, "the file exists", str(path))
        self._find_room()
        self._step()
        inode = Inode(bytes(size))
        self.names[path] = self.kept_names[path] = inode
        return CrashFile(self, path, inode)

    def _find_room(self) -> None:
        if self.new_files_max is not None:
            if self.new_files_max <= 0:
                raise OSError(errno.ENOSPC, "no space left")
            self.new_files_max -= 1

    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        if path not in self.names:
            self._find_room()
        self._step()
        self.names[path] = self.kept_names[path] = Inode(joined(data))

    def read(self, path: Path) -> bytes:
        self.reads.spend()
        return bytes(self._find(path).seen)

    def exists(self, path: Path) -> bool:
        return path in self.names or path in self.folders_made

    def is_dir(self, path: Path) -> bool:
        return path in self.folders_made

    def file_size(self, path: Path) -> int:
        return len(self._find(path).seen)

    def modified_at(self, path: Path) -> float:
        return 0.0

    def list(self, path: Path) -> list[str]:
        return sorted(name.name for name in self.names if name.parent == path)

    def folders(self, path: Path) -> list[str]:
        return sorted(folder.name for folder in self.folders_made if folder.parent == path)

    def file_sizes(self, path: Path) -> dict[str, int]:
        return {name: self.file_size(path / name) for name in self.list(path)}

    def make_dirs(self, path: Path) -> None:
        self.folders_made |= {path, *path.parents}

    def remove(self, path: Path) -> None:
        self._step()
        if self.new_files_max is not None:
            self.new_files_max += 1
        self._find(path)
        del self.names[path]
        self.pending_names.append((path, None))

    def remove_dir(self, path: Path) -> None:
        self.folders_made.discard(path)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        inode = self.names[target] = self.names.pop(source)
        self.pending_names += [(source, None), (target, inode)]

    def sync_dir(self, path: Path) -> None:
        self._step()
        for name, inode in self.pending_names:
            if name.parent == path:
                self._keep_name(name, inode)
        self.pending_names = [item for item in self.pending_names if item[0].parent != path]

    def lock(self, path: Path) -> Lock:
        if path in self.locks:
            raise BlockingIOError(errno.EAGAIN, "the lock is held", str(path))
        self.locks.add(path)
        return _Lock(self, path)

    def usage(self, path: Path) -> DiskUsage:
        return DiskUsage(1 << 40, 1 << 39)

    def lose(self, path: Path) -> None:
        """The file is gone, for good."""
        del self.names[path]
        self.kept_names.pop(path, None)

    def flip(self, path: Path, offset: int, mask: int = 1) -> None:
        """Rot: change a byte where it lies."""
        inode = self._find(path)
        inode.seen[offset] ^= mask
        inode.kept[offset] ^= mask
