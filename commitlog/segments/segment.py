"""One fixed-size file of a segment log: opened when first needed, closed after its last use.

A segment that is taken out of its log (truncation, retention) while a sync runs on it in another
thread is closed by the last user, so a descriptor is never closed under a running `fdatasync`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from commitlog.files.system import File, FileSystem


class Segment:
    """A file of a segment log; addresses: `start` of its first byte, `end` behind its last one."""

    __slots__ = (
        "_file",
        "_files",
        "_lock",
        "_opened",
        "_pins",
        "_retired",
        "_writable",
        "end",
        "path",
        "start",
    )

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        start: int,
        size: int,
        *,
        writable: bool,
        opened: Callable[[Segment], None] | None = None,
    ) -> None:
        """`opened` is told whenever this segment takes a descriptor on its owner's thread."""
        assert size > 0
        self._files, self.path, self._writable = files, path, writable
        self.start, self.end = start, start + size
        self._file: File | None = None
        self._opened = opened
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
            if self._file is not None:
                return self._file
            file = self._file = self._files.open(self.path, writable=self._writable)
        if self._opened is not None:
            self._opened(self)
        return file

    def adopt(self, file: File) -> None:
        """Use a file that was just created instead of opening it again."""
        assert self._file is None
        self._file = file
        if self._opened is not None:
            self._opened(self)

    @property
    def is_open(self) -> bool:
        """True while its file is open."""
        return self._file is not None

    def sync_closed(self) -> None:
        """Sync a file that has no descriptor, from any thread; a removed file needs no sync."""
        try:
            file = self._files.open(self.path)
        except FileNotFoundError:
            if self._retired:
                return
            raise
        try:
            file.datasync()
        finally:
            file.close()

    def pin(self) -> File:
        """Keep the file open until `unpin`, even when the log lets go of it."""
        file = self.file
        with self._lock:
            self._pins += 1
        return file

    def unpin(self) -> None:
        """End one use; the last one closes a segment that is retired."""
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
