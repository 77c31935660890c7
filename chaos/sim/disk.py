"""A virtual disk behind `commitlog.files`: a power cut keeps synced bytes only; it fails on demand.

What it models
--------------
* A write is seen at once and is durable only after `datasync`. A sync covers the writes that were
  made before it *began* (`barrier`), not those made while it ran.
* `power_cut` loses un-synced writes, or keeps any part of them in sectors of 512 bytes, later ones
  without earlier ones; pending names go the same way (`names.py`). A killed process loses nothing
  of the page cache, and what was un-synced stays so: a later power cut may take it.
* A failed sync leaves pages that look clean: reads still show the bytes, no later sync writes them.
* `fuse`: the power goes, or the process is killed, in the middle of the n-th operation from now, so
  every boundary between two disk operations is a possible crash.

    PowerCut (BaseException)   raised by the operation at which the fuse blows, and by all after it
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chaos.sim.names import Inode, NameChange, Names, parent
from commitlog.files.content import Content, Streamed, joined, size_of, write_parts
from commitlog.files.disk_usage import DiskUsage
from commitlog.files.system import Buffer

SECTOR_SIZE, _NEVER = 512, 1 << 62


class PowerCut(BaseException):
    """Machine or process died in a disk operation; no `except Exception` may stop it."""


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """The chance that a power cut keeps an un-synced sector, or a pending name."""

    sector_kept: float
    name_kept: float


class SimFile:
    """`commitlog.files.system.File` on an inode of the virtual disk."""

    __slots__ = ("_disk", "_inode", "_name", "_path", "_view", "_writable", "size")

    def __init__(self, disk: SimDisk, path: Path, inode: Inode, *, writable: bool) -> None:
        self._disk, self._path, self._inode = disk, path, inode
        self._name = str(path)
        self._writable = writable
        self._view = memoryview(inode.data).toreadonly()
        self.size = len(inode.data)

    @property
    def path(self) -> Path:
        """As `File.path`."""
        return self._path

    def pread(self, size: int, position: int) -> bytes:
        """As `File.pread`; raises EIO while the disk has a read error."""
        if self._disk.read_error:
            raise OSError(errno.EIO, "virtual disk: the sector cannot be read", str(self._path))
        return bytes(self._view[position : position + size])

    allocated = property(lambda self: self.size)

    def allocate(self, end: int) -> None:  # space is asked for when a file is made
        """Has no effect: a file has space for all its bytes from its making on."""

    def allocate_range(self, begin: int, end: int) -> None:
        """Has no effect: a file has space for all its bytes from its making on."""

    def next_data(self, position: int) -> tuple[int, int]:
        """As `File.next_data`; virtual files have no holes."""
        return min(position, self.size), self.size

    def pwrite(self, data: Buffer, position: int) -> None:
        """As `File.pwrite`: seen at once, but not safe from a power cut until synced."""
        disk = self._disk
        if not self._writable:
            raise OSError(errno.EBADF, "virtual disk: opened for reading", str(self._path))
        content = bytes(data)
        end = position + len(content)
        assert end <= self.size, f"write to {end} in a file of {self.size} bytes: {self._path}"
        if end > disk.file_limit:
            raise OSError(errno.EFBIG, "virtual disk: file too large", str(self._path))
        disk.operations += 1
        if disk.operations >= disk.trip:
            content = disk.tripped_write(content)
            end = position + len(content)
        disk.writes += 1
        inode = self._inode
        # A file that was deleted meanwhile may still be written to, and another one have its name.
        if disk.heals and disk.flips.get(self._name) and disk.names.seen.get(self._name) is inode:
            disk.heal(self._name, position, end)
        inode.data[position:end] = content
        inode.pending.append((disk.writes, position, content))
        inode.modified_at = disk.now
        if disk.operations >= disk.trip:
            disk.tripped(self._name)

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """As `File.pwritev`: one write of all parts."""
        self.pwrite(parts[0] if len(parts) == 1 else b"".join(parts), position)

    def view(self, position: int, size: int) -> memoryview:
        """As `File.view`; later writes show in it."""
        return self._view[position : position + size]

    def datasync(self) -> None:
        """Makes writes durable that were made before the sync began; the disk may fail or lie."""
        self._disk.sync_inode(self._inode, self._name)

    def close(self) -> None:
        """Has no effect: written bytes stay in the page cache, as after a real close."""


class SimLock:
    """A lock that dies with its process (`process_died`)."""

    def __init__(self, disk: SimDisk, name: str) -> None:
        self._disk, self._name = disk, name

    def release(self) -> None:
        """Lets another process of the virtual machine take the lock."""
        self._disk.locks.discard(self._name)


class SimDisk:
    """`commitlog.files.system.FileSystem`: one machine's disk, which outlives the node's process.

    Attributes:
        operations: writes, syncs and changes of names so far; what `fuse` and `fail` count in.
        writes: number of the last write; `barrier` is one of them.
        barrier: while a sync task runs, the last write that was made before the sync began.
        free: bytes that new files may take; below zero is ENOSPC.
        file_limit: no byte is written at or behind this place of a file, nor is one made so long.
        lies: syncs say that they are done and do nothing.
        cut_create: the next log file that is begun is the last thing the process does.
        flips: bits that are rotten now, by file and position.
        heals: a byte that is written again is not rotten any more; `healed` counts them.
    """

    def __init__(self, random: Random) -> None:
        self.names = Names()
        self.locks: set[str] = set()
        self.now = 0.0
        self.operations = 0
        self.writes = 0
        self.trip = _NEVER
        self.free = 1 << 40
        self.read_error = self.lies = self.cut_create = False
        self.file_limit = _NEVER
        self.fuse_power = True
        self.flips: dict[str, dict[int, int]] = {}
        self.heals, self.healed = False, 0
        self._random = random
        self._fuse = self._fail = _NEVER
        self._barrier: tuple[int, int] | None = None

    # -- faults ------------------------------------------------------------------------------

    def fuse(self, operations: int, *, power: bool = True) -> None:
        """The process dies in the middle of the `operations`-th disk operation from now.

        With `power` the machine does; without, the page cache stays, un-synced as it is.
        """
        self.fuse_power = power
        self._fuse = self.operations + operations
        self.trip = min(self._fuse, self._fail)

    def fail(self, operations: int) -> None:
        """From the `operations`-th disk operation on, every one fails with EIO."""
        self._fail = self.operations + operations
        self.trip = min(self._fuse, self._fail)

    def repair(self) -> None:
        """No fuse, no errors, space again."""
        self._fuse = self._fail = self.trip = _NEVER
        self.read_error = self.lies = self.cut_create = False
        self.free = 1 << 40
        self.file_limit = _NEVER

    def power_cut(self, policy: CutPolicy) -> None:
        """Drops un-synced writes and names, but for those kept by the chances in `policy`."""
        random = self._random
        inodes = {id(inode): inode for inode in self.names.seen.values()}
        inodes.update((id(inode), inode) for inode in self.names.durable.values())
        for inode in inodes.values():
            for _, position, content in inode.pending:
                _tear(inode.durable, position, content, policy.sector_kept, random)
            inode.pending.clear()
            inode.data = bytearray(inode.durable)
        self.names.cut(lambda: random.random() < policy.name_kept)
        self.process_died()

    def process_died(self) -> None:
        """SIGKILL: locks go, the page cache stays."""
        self.locks.clear()
        self._fuse = _NEVER
        self.trip = self._fail
        self._barrier = None

    def flip(self, name: str, position: int, mask: int) -> None:
        """Flips bits of one byte on the disk (bit rot). The same call undoes it."""
        inode = self.names.seen[name]
        inode.data[position] ^= mask
        inode.durable[position] ^= mask
        flips = self.flips.setdefault(name, {})
        if flips.get(position) == mask:
            del flips[position]
        else:
            flips[position] = mask

    def heal(self, name: str, position: int, end: int) -> None:
        """Repair the flipped bits of bytes that are written again."""
        for place in [place for place in self.flips[name] if position <= place < end]:
            self.flip(name, place, self.flips[name][place])
            self.healed += 1

    def rotten(self, folder: str) -> bool:
        """True if a file of the folder holds a flipped bit. Deleted files do not count."""
        return any(
            flips and f"/{folder}/" in name and name in self.names.seen
            for name, flips in self.flips.items()
        )

    def tripped(self, name: str) -> None:
        """Raises PowerCut if the fuse has blown, else OSError (EIO), as `fail` planned."""
        if self.operations >= self._fuse:
            raise PowerCut
        raise OSError(errno.EIO, "virtual disk: input/output error", name)

    def tripped_write(self, content: bytes) -> bytes:
        """A write that meets a fault leaves any prefix of itself."""
        return content[: self._random.randrange(len(content) + 1)]

    # -- syncs -------------------------------------------------------------------------------

    def begin_task(self, barrier: int) -> None:
        """A sync task runs now that began when write number `barrier` was the last one."""
        self._barrier = (barrier, self.writes)

    def end_task(self) -> None:
        """The sync task has ended: syncs cover all writes so far again."""
        self._barrier = None

    def sync_inode(self, inode: Inode, name: str) -> None:
        """Makes writes up to the barrier durable. A failed sync (EIO) gives up all pending ones."""
        self.operations += 1
        if self.operations >= self.trip:
            if self.operations < self._fuse:
                inode.pending.clear()  # the kernel marks the pages clean after a failed sync
            self.tripped(name)
        pending = inode.pending
        if not pending or self.lies:
            return
        kept: list[tuple[int, int, bytes]] = []
        low, high = self._barrier or (self.writes, self.writes)
        for write in pending:
            number, position, content = write
            if low < number <= high:
                kept.append(write)
            else:
                inode.durable[position : position + len(content)] = content
        inode.pending = kept

    def is_durable(self, name: str, position: int, size: int) -> bool:
        """Would these bytes be there, as they are seen now, after the worst power cut?"""
        inode = self.names.durable.get(name)
        if inode is None or inode is not self.names.seen.get(name):
            return False
        end = position + size
        return inode.durable[position:end] == inode.data[position:end]

    # -- FileSystem --------------------------------------------------------------------------

    def open(self, path: Path, *, writable: bool = True) -> SimFile:
        """As `FileSystem.open`."""
        return SimFile(self, path, self._inode(path), writable=writable)

    def create(
        self, path: Path, size: int, *, staging: Path, zeros: bool = False, durable: bool = True
    ) -> SimFile:
        """As `FileSystem.create`; each step may meet a fault. Raises ENOSPC, EFBIG, EIO."""
        name = str(path)
        if name in self.names.seen:
            raise FileExistsError(errno.EEXIST, "the file exists", name)
        folder = path.parent
        self.make_dirs(staging)
        self.make_dirs(folder)
        temporary = f"{staging}/{folder.name}-{path.name}.new"
        inode = self._new_file(temporary, size)
        if self.cut_create:
            self.cut_create = False
            self.fuse(self._random.randint(1, 4), power=self._random.random() < 0.5)
        if durable:
            self.sync_inode(inode, temporary)
        self._change(NameChange(name, inode, temporary))
        if durable:
            self.sync_dir(folder)
            self.sync_dir(staging)
        return SimFile(self, path, inode, writable=True)

    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        """As `FileSystem.write_atomic`; each step may meet a fault. Raises ENOSPC, EFBIG, EIO."""
        home, folder = path.parent, staging or path.parent
        temporary = folder / f"{path.name}.tmp"
        data = joined(data) if isinstance(data, Streamed) else data
        inode = self._new_file(str(temporary), size_of(data))
        write_parts(SimFile(self, temporary, inode, writable=True).pwrite, data, lambda: None)
        self.sync_inode(inode, str(temporary))
        self.rename(temporary, path)
        self.sync_dir(home)
        if folder != home:
            self.sync_dir(folder)

    def read(self, path: Path) -> bytes:
        """As `FileSystem.read`; raises EIO while the disk has a read error."""
        if self.read_error:
            raise OSError(errno.EIO, "virtual disk: the sector cannot be read", str(path))
        return bytes(self._inode(path).data)

    def exists(self, path: Path) -> bool:
        """As `FileSystem.exists`, as the running process sees names."""
        return str(path) in self.names.seen or self.is_dir(path)

    def is_dir(self, path: Path) -> bool:
        """As `FileSystem.is_dir`."""
        return str(path) in self.names.folders

    def file_size(self, path: Path) -> int:
        """As `FileSystem.file_size`."""
        return len(self._inode(path).data)

    def modified_at(self, path: Path) -> float:
        """Virtual seconds of the last write, or of the file's making if there was none."""
        return self._inode(path).modified_at

    def folders(self, path: Path) -> list[str]:
        """Names of the sub-folders, sorted."""
        return [name for name in self.list(path) if self.is_dir(path / name)]

    def file_sizes(self, path: Path) -> dict[str, int]:
        """Size in bytes of each file in the folder, by sorted name."""
        names = [name for name in self.list(path) if not self.is_dir(path / name)]
        return {name: self.file_size(path / name) for name in names}

    def list(self, path: Path) -> list[str]:
        """Names of files and folders, sorted."""
        return self.names.children(str(path))

    def make_dirs(self, path: Path, *, durable: bool = True) -> None:
        """Makes the folder and its parents, which no power cut takes away."""
        name = str(path)
        while name not in self.names.folders:
            self.names.folders.add(name)
            name = parent(name)

    def remove(self, path: Path) -> None:
        """Removes the name; a power cut before the folder's sync may bring it back."""
        self._inode(path)
        self._change(NameChange(str(path), None))

    def remove_dir(self, path: Path) -> None:
        """As `FileSystem.remove_dir`. Raises ENOTEMPTY."""
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", str(path))
        self.names.folders.discard(str(path))

    def rename(self, source: Path, target: Path) -> None:
        """As `FileSystem.rename`; a power cut before the folder's sync may undo it."""
        self._change(NameChange(str(target), self._inode(source), str(source)))

    def sync_dir(self, path: Path) -> None:
        """Makes changes of names in the folder durable, unless the disk fails or lies here."""
        self.operations += 1
        if self.operations >= self.trip:
            self.tripped(str(path))
        if not self.lies:
            self.names.sync(str(path))

    def lock(self, path: Path) -> SimLock:
        """As `FileSystem.lock`. Raises BlockingIOError when the lock is held."""
        name = str(path)
        if name in self.locks:
            raise BlockingIOError(errno.EAGAIN, "the lock is held", name)
        if name not in self.names.seen:
            self._new_file(name, 0)
        self.locks.add(name)
        return SimLock(self, name)

    def usage(self, path: Path) -> DiskUsage:
        """A disk of 1 TiB or more, with as many free bytes as the fault leaves."""
        return DiskUsage(max(1 << 40, self.free), max(self.free, 0))

    def _inode(self, path: Path) -> Inode:
        inode = self.names.seen.get(str(path))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return inode

    def _new_file(self, name: str, size: int) -> Inode:
        if size > self.free:
            raise OSError(errno.ENOSPC, "virtual disk: no space left", name)
        if size > self.file_limit:
            raise OSError(errno.EFBIG, "virtual disk: file too large", name)
        inode = Inode(size)
        inode.modified_at = self.now
        self._change(NameChange(name, inode))
        return inode

    def _change(self, change: NameChange) -> None:
        self.operations += 1
        if self.operations >= self.trip:
            self.tripped(change.target)
        self.names.change(change)


def _tear(durable: bytearray, position: int, content: bytes, kept: float, random: Random) -> None:
    """Write the sectors of one un-synced write that happened to reach the disk."""
    if kept <= 0.0:
        return
    end = position + len(content)
    at = position
    while at < end:
        step = min(SECTOR_SIZE - at % SECTOR_SIZE, end - at)
        if kept >= 1.0 or random.random() < kept:
            durable[at : at + step] = content[at - position : at - position + step]
        at += step
