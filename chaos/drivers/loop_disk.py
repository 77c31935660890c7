"""A disk per node that can lose its power: ext4 on a loop file (docs/spec/chaos.md 3.5).

    <root>/disks/n0.img    sparse image, ext4, mounted on the node's data folder

    cut    SIGSTOP ─► picture of the log ─► shutdown ioctl ─► SIGKILL ─► unmount ─► mount ─► compare

The ioctl is the one that file system tests use: nothing that is dirty reaches the image, not even
the journal's open transaction, so what was not synced is gone: bytes, names, sizes. Needs root,
loop devices and mkfs.ext4; 20 ms a cut.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.drivers import remains
from chaos.drivers.tools import run_tool
from cluster.local import endings, processes

IMAGE_BYTES = 256 << 20  # log files go when the leader's is three quarters full; others' are fuller
PAGE = 4096
UNMOUNT_SECONDS_MAX = 2.0
UNMOUNT_AGAIN_SECONDS = 0.05
_SHUTDOWN = 0x8004587D  # _IOR('X', 125, uint32)
_NO_LOG_FLUSH = struct.pack("I", 2)


@dataclass(frozen=True, slots=True)
class Cut:
    """The loss of one power cut: pages of log files that differ from the process's view of them.

    Attributes:
        written_back: of the lost pages, those that reached the disk whole after all.
        torn: one page of the log came back in its first part only.
    """

    node: str
    lost_pages: int
    changed_files: tuple[str, ...]
    written_back: int = 0
    torn: bool = False

    @property
    def lost_records(self) -> bool:
        """Whether bytes of the log itself are gone, and not of its index only."""
        return any("/data/" in name for name in self.changed_files)

    def __str__(self) -> str:
        if not self.lost_pages and not self.changed_files:
            return f"{self.node}: nothing was pending"
        back = f", {self.written_back} of them came back" if self.written_back else ""
        torn = ", one of the log came back torn" if self.torn else ""
        lost = f"{self.lost_pages} pages of {len(self.changed_files)} files lost"
        return f"{self.node}: {lost}{back}{torn}"


def why_not() -> str:
    """Why loop disks cannot be used here; "" when they can."""
    if os.geteuid() != 0:
        return "needs root to mount"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    if shutil.which("mkfs.ext4") is None:
        return "needs mkfs.ext4 (Debian package e2fsprogs)"
    return ""


@dataclass(slots=True)
class LoopDisk:
    """One node's disk. `mount_point` must exist and be empty."""

    node: str
    image: Path
    mount_point: Path
    mounted: bool = field(default=False, init=False)

    def make(self) -> None:
        """Format and mount. Raises OSError."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        run_tool("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        self.mount_point.mkdir(parents=True, exist_ok=True)
        self.mount()
        (self.mount_point / "lost+found").rmdir()

    def mount(self) -> None:
        """Mounts the image through a loop device; needs root. Raises OSError if `mount` fails."""
        run_tool("mount", "-o", "loop", str(self.image), str(self.mount_point))
        self.mounted = True

    def unmount(self) -> None:
        """Unmounts the disk. Raises OSError if a process keeps files open there for longer than
        UNMOUNT_SECONDS_MAX."""
        end = time.monotonic() + UNMOUNT_SECONDS_MAX
        while self.mounted:
            try:
                run_tool("umount", str(self.mount_point))
                self.mounted = False
            except OSError:  # a process that was killed is still being taken apart
                if time.monotonic() > end:
                    raise
                time.sleep(UNMOUNT_AGAIN_SECONDS)

    def lose_power(self) -> None:
        """From now on no write reaches the image, and every call fails with EIO."""
        fd = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(fd)


class LoopDisks:
    """The disks of a cluster's nodes.

    Args:
        folder: for the images.
        data: node → its data folder, which becomes the mount point.
    """

    def __init__(self, folder: Path, data: dict[str, Path]) -> None:
        self._folder = folder
        self.disks = {
            node: LoopDisk(node, folder / f"{node}.img", path) for node, path in data.items()
        }
        # A cut is made in a thread, which goes on when the run around it is interrupted: it must
        # not mount again what was unmounted behind its back.
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> LoopDisks:
        self._folder.mkdir(parents=True, exist_ok=True)
        remains.sign(self._folder)
        try:
            for disk in self.disks.values():
                disk.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            self._take_away()

    def _take_away(self) -> None:
        for disk in self.disks.values():
            with contextlib.suppress(OSError):
                disk.unmount()
            if disk.mounted:  # somebody still looks at it; it goes when they do
                with contextlib.suppress(OSError):
                    run_tool("umount", "-l", str(disk.mount_point))

    def cut(
        self,
        nodes: Sequence[str],
        folders: Sequence[Path],
        *,
        back: float = 0.0,
        torn: bool = False,
        random: Random | None = None,
    ) -> list[Cut]:
        """Take the power from these nodes at once; their processes are gone and disks mounted.

        Args:
            folders: of the nodes' processes.
            back: share of the lost pages that reached the disk after all, in any order; above 0
                one at least, where any was lost.
            torn: the last lost page of the log came back in its first part only.

        Raises OSError, and when the disks were taken away.
        """
        with self._lock:
            if self._closed:
                raise OSError("the disks are gone: the run was ended")
            return self._cut(nodes, folders, back, torn, random or Random(0))

    def _cut(
        self, nodes: Sequence[str], folders: Sequence[Path], back: float, torn: bool, random: Random
    ) -> list[Cut]:
        for folder in folders:
            processes.send(folder, signal.SIGSTOP)
        chosen = [self.disks[node] for node in nodes]
        pictures = [_picture(disk.mount_point) for disk in chosen]
        for disk in chosen:
            disk.lose_power()
        with endings.because("a power cut: its disk has lost what was not synced"):
            processes.kill(folders)
        found: list[Cut] = []
        failed: list[OSError] = []
        for disk, picture in zip(chosen, pictures, strict=True):
            try:
                disk.unmount()
                disk.mount()
                found.append(_compare(disk, picture, back, torn, random))
            except OSError as error:  # the others come back nevertheless
                failed.append(error)
        if failed:
            raise failed[0]
        return found


def _picture(folder: Path) -> dict[str, bytes]:
    """Log and index files as the process sees them: page cache included."""
    files = sorted(folder.glob("dledger-*/data/*")) + sorted(folder.glob("dledger-*/index/*"))
    found = {}
    for path in files:
        with contextlib.suppress(OSError):
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def _compare(
    disk: LoopDisk, picture: dict[str, bytes], back: float, torn: bool, random: Random
) -> Cut:
    lost, changed, pages = 0, [], []
    for name, before in picture.items():
        path = disk.mount_point / name
        after = path.read_bytes() if path.exists() else b""
        different = _different_pages(before, after)
        if not different and len(before) == len(after):
            continue
        lost += len(different)
        changed.append(name)
        if len(before) == len(after):  # a name that is gone takes its pages with it
            pages += [(name, page) for page in different]
    tail = _tear(disk.mount_point, picture, pages, random) if torn else None
    pages = [page for page in pages if page != tail]
    written = _write_back(disk.mount_point, picture, _chosen(pages, back, random))
    return Cut(disk.node, lost, tuple(changed), written, tail is not None)


def _different_pages(before: bytes, after: bytes) -> list[int]:
    if before == after:
        return []
    size = max(len(before), len(after))
    return [
        at // PAGE for at in range(0, size, PAGE) if before[at : at + PAGE] != after[at : at + PAGE]
    ]


Page = tuple[str, int]  # file, number in it


def _chosen(pages: Sequence[Page], back: float, random: Random) -> list[Page]:
    """Which of them come back; in no order."""
    found = [page for page in pages if random.random() < back]
    if back and pages and not found:
        found = [random.choice(pages)]
    random.shuffle(found)
    return found


def _write_back(folder: Path, picture: dict[str, bytes], pages: Sequence[Page]) -> int:
    for name, page in pages:
        _put(folder / name, page * PAGE, picture[name][page * PAGE : (page + 1) * PAGE])
    return len(pages)


def _tear(
    folder: Path, picture: dict[str, bytes], pages: Sequence[Page], random: Random
) -> Page | None:
    """Writes the first part of the log's last lost page to the disk, so that the page is torn
    there. Returns the page, or None if no page could be torn."""
    for name, page in sorted(pages, reverse=True):
        if "/data/" not in name:
            continue
        at = page * PAGE
        before = picture[name][at : at + PAGE]
        after = (folder / name).read_bytes()[at : at + PAGE]
        new = [n for n, (old, now) in enumerate(zip(before, after, strict=True)) if old != now]
        if len(new) > 1:  # of one byte there is no first part
            end = random.choice(new[1:])  # up to here, so that something came and something not
            _put(folder / name, at, before[:end])
            return name, page
    return None


def _put(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
