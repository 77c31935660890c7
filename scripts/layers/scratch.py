"""The folder that a layer's tests write in: on the disk, or in memory.

In memory a sync costs nothing, and tests sync at every step of every node. A run that is killed
leaves its folder there, so the next one removes it; what failed tests left moves to the disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

from scripts.layers.machine import MEMORY_FREE_MIN

#: The variable that says no to it, with "0".
ASKED = "DLEDGER_TEST_MEMORY"
#: Where Linux has a file system in memory.
MEMORY = Path("/dev/shm")
#: Bytes that the suite may have there at once.
FILES_MAX = 3 << 30
_PREFIX = "dledger-"
_PIECE_BYTES = 1 << 16
_ZEROS = bytes(_PIECE_BYTES)


def make(*, in_memory: bool = False) -> Path:
    """A new folder.

    `in_memory`: there, if the suite's files fit, twice the memory that a run asks for is free
    besides, and ASKED is not 0.
    """
    if in_memory and os.environ.get(ASKED) != "0" and _memory_has_room():
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=MEMORY))
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _memory_has_room() -> bool:
    mounts = Path("/proc/mounts")
    if not mounts.exists() or not os.access(MEMORY, os.W_OK):
        return False
    rows = [line.split() for line in mounts.read_text().splitlines()]
    return (
        any(row[1:3] == [str(MEMORY), "tmpfs"] for row in rows)
        and shutil.disk_usage(MEMORY).free >= FILES_MAX
        and psutil.virtual_memory().available >= FILES_MAX + 2 * MEMORY_FREE_MIN
    )


def kept(folder: Path) -> Path:
    """Where the folder is to stay: what failed tests left may be large, and is looked at later."""
    if folder.parent != MEMORY:
        return folder
    there = Path(tempfile.mkdtemp(prefix=_PREFIX))
    shutil.copytree(
        folder,
        there,
        symlinks=True,
        dirs_exist_ok=True,
        ignore=_sockets_and_pipes,
        copy_function=_with_holes,
    )
    shutil.rmtree(folder, ignore_errors=True)
    return there


def _with_holes(source: str, target: str) -> str:
    """Copy a file without blocks of zeros: log files are GiBs of holes."""
    with open(source, "rb") as read, open(target, "wb") as written:
        while piece := read.read(_PIECE_BYTES):
            if piece == _ZEROS[: len(piece)]:
                written.seek(len(piece), os.SEEK_CUR)
            else:
                written.write(piece)
        written.truncate()
    shutil.copystat(source, target)
    return target


def _sockets_and_pipes(folder: str, names: list[str]) -> list[str]:
    paths = [Path(folder, name) for name in names]
    return [p.name for p in paths if not (p.is_symlink() or p.is_dir() or p.is_file())]


def remove_those_of_ended_runs() -> None:
    """Give back the memory of runs that were killed."""
    for folder in MEMORY.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
