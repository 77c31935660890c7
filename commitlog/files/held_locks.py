"""Which files this process has locked.

Record locks belong to the process: a second one on the same file would be granted, and closing its
descriptor would drop the first. So code that locks a file asks here before, and the file is listed
here until it is unlocked.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

#: `struct flock` of Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi0q")
_held: set[tuple[int, int]] = set()  # device and inode


class HeldLock:
    """A lock held through descriptor `fd`, until `release`."""

    def __init__(self, fd: int) -> None:
        found = os.fstat(fd)
        self._fd, self._name = fd, (found.st_dev, found.st_ino)
        _held.add(self._name)

    def release(self) -> None:
        """Give the lock up and close its file; a second call has no effect."""
        if self._fd >= 0:
            _held.discard(self._name)
            os.close(self._fd)
            self._fd = -1


def is_held(path: Path) -> bool:
    """True if this process has locked the file at `path`, under this or another name."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) in _held


def is_locked(path: Path) -> bool:
    """Has any process locked the file at `path`? Takes no lock, so it stops no start.

    False as well where the file is missing or may not be read.
    """
    if is_held(path):  # to close another descriptor of it would drop the lock
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    finally:
        os.close(fd)
    return bool(kind != fcntl.F_UNLCK)
