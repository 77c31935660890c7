"""Files that are read again when one of them has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

Stamp = tuple[tuple[int, int, int], ...]
_log = logging.getLogger(__name__)


def stamp_of(*files: Path) -> Stamp:
    """Another value when one of the files was written or replaced. Raises OSError."""
    found = [path.stat() for path in files]
    return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)


class WatchedFiles(Generic[T]):
    """The files are looked at with every `get`. Files that cannot be used then are logged once, and
    the value that was read before stays in force.

    Raises the errors of `read` when it is made.
    """

    def __init__(self, files: Sequence[Path], read: Callable[[], T], name: str) -> None:
        """`read` raises OSError (ssl.SSLError is one) for files that cannot be used; `name` is
        their name in the log, in the singular."""
        self._files, self._read, self._name = tuple(files), read, name
        self._wrong = ""
        self._seen = stamp_of(*self._files)
        self._found = read()

    def get(self) -> T:
        """The value of the files as they are now, or as they were when last readable."""
        try:
            stamp = stamp_of(*self._files)
            if stamp != self._seen:
                self._seen = stamp
                self._found = self._read()
                self._wrong = ""
                _log.info("%s: the new %s is in force", self._files[0], self._name)
        except OSError as error:
            if str(error) != self._wrong:
                self._wrong = str(error)
                _log.error("%s; the %s read before stays in force", error, self._name)
        return self._found
