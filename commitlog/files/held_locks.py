"""Which files this process has locked.

Record locks belong to the process: a second one on the same file would be granted, and closing its
descriptor would drop the first. So whoever locks asks here before, and is listed here until it
lets go.
"""

from __future__ import annotations

import os
from pathlib import Path

_held: set[tuple[int, int]] = set()  # device and inode


class HeldLock:
    """A lock held through descriptor `fd`, until `release`."""

    def __init__(self, fd: int) -> None:
        found = os.fstat(fd)
        self._fd, self._name = fd, (found.st_dev, found.st_ino)
        _held.add(self._name)

    def release(self) -> None:
        if self._fd >= 0:
            _held.discard(self._name)
            os.close(self._fd)
            self._fd = -1


def is_held(path: Path) -> bool:
    """Has this process locked the file at `path`, by whatever name?"""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) in _held
