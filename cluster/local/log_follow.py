"""Reads a log while it grows and rotates, so that no line is left out and none comes twice.

log.txt ─► (ends) ─► log.1.txt is the one we have open? its rest, then log.txt from its beginning
                     log.3.txt is?  its rest, log.2.txt and log.1.txt as they are, then log.txt
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from cluster.local.node_log import numbered


class LogFollower:
    """Follows the text of `path` from its beginning. Raises OSError if it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)

    def read(self) -> str:
        """The text that was added since the last call."""
        parts = [self._file.read()]
        for path, found in reversed(self._newer()):
            try:
                following = _open(path)
            except OSError:
                break  # it is being renamed just now: the next call finds it
            if not os.path.samestat(os.fstat(following.fileno()), found):
                following.close()
                break
            parts.append(self._file.read())  # what came before it was renamed
            self._file.close()
            self._file = following
            parts.append(self._file.read())
        return "".join(parts)

    def _newer(self) -> list[tuple[Path, os.stat_result]]:
        """The files that were begun after the one that is open, the newest first."""
        ours = os.fstat(self._file.fileno())
        newer: list[tuple[Path, os.stat_result]] = []
        while True:  # ends with our file, or where no file is
            path = numbered(self._path, len(newer))
            try:
                found = path.stat()
            except OSError:
                return newer  # ours is deleted: what is left comes after it
            if os.path.samestat(found, ours):
                return newer
            newer.append((path, found))

    def close(self) -> None:
        """Closes the file that is open; then `read` raises ValueError."""
        self._file.close()


def _open(path: Path) -> TextIO:
    return path.open("r", encoding="utf-8", errors="replace")
