"""One fixed-size file of a segment log: opened when first needed, closed when nobody uses it.

A segment that is taken out of its log (truncation, retention) while a sync runs on it in another
thread is closed by the last user, so a descriptor is never closed under a running `fdatasync`.
"""

from __future__ import annotations

import threading
from pathlib import Path

from commitlog.files import File, FileSystem


class Segment:
    """A file whose first byte has the address `start`; `end` is one past its last byte."""

    __slots__ = (
        "_file",
        "_files",
        "_lock",
        "_pins",
        "_retired",
        "_writable",
        "end",
        "path",
        "start",
    )

    def __init__(
        self, files: FileSystem, path: Path, start: int, size: int, *, writable: bool
    ) -> None:
        assert size > 0
        self._files, self.path, self._writable = files, path, writable
        self.start, self.end = start, start + size
        self._file: File | None = None
        self._lock = threading.Lock()
        self._pins = 0
        self._retired = False

    @property
    def file(self) -> File:
        """The open file. Raises OSError when it cannot be opened."""
        file = self._file
        return file if file is not None else self._open()

    def _open(self) -> File:
        with self._lock:
            assert not self._retired, f"{self.path} is used after it was closed"
            if self._file is None:
                self._file = self._files.open(self.path, writable=self._writable)
            return self._file

    def adopt(self, file: File) -> None:
        """Use a file that was just created instead of opening it again."""
        assert self._file is None
        self._file = file

    def pin(self) -> File:
        """Keep the file open until `unpin`, whatever happens to the log."""
        file = self.file
        with self._lock:
            self._pins += 1
        return file

    def unpin(self) -> None:
        with self._lock:
            assert self._pins > 0
            self._pins -= 1
            if self._retired and self._pins == 0:
                self._close()

    def retire(self) -> None:
        """The log lets go of this segment: close it now or when the last pin goes."""
        with self._lock:
            self._retired = True
            if self._pins == 0:
                self._close()

    def rest(self) -> bool:
        """Close the descriptor of an idle segment; it is opened again when needed."""
        with self._lock:
            if self._file is None or self._pins:
                return False
            self._close()
            return True

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
