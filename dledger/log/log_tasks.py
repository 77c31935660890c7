"""Disk work of a log that a thread may do; see `SyncTask` in the port."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from commitlog.files.system import File
from dledger.durable.flush_mark import Mark, MarkFile
from dledger.durable.mirrors import Mirrors


class LogSync:
    """Make everything up to `mark` durable: every dirty file, in the order of addresses (R13)."""

    def __init__(self, files: Sequence[File], mark: Mark) -> None:
        self.files, self.mark = files, mark
        self.done = False
        self.cancelled = False

    def run(self) -> None:
        """Syncs the files; in a thread. Raises OSError, after which the node must stop (D5)."""
        for file in self.files:
            file.datasync()
        self.done = True


class MarkSync:
    """Sync the slots when their turn has come, then write and sync the mark, then the mirrors.

    A truncation cancels a mark that was captured before it: were it written later, it would name
    an entry that is gone. `cancel` waits for a write under way.
    """

    def __init__(
        self,
        file: MarkFile,
        mark: Mark,
        slot_files: Sequence[File],
        mirrors: Mirrors | None,
    ) -> None:
        self._file, self.mark = file, mark
        self.slot_files = list(slot_files)
        self._mirrors = mirrors  # None: not their turn
        self._captured = mirrors.capture() if mirrors is not None else {}
        self._lock = threading.Lock()
        self.done = False
        self.cancelled = False

    def run(self) -> None:
        """Syncs slots and writes the mark, unless cancelled; writes mirrors in any case."""
        with self._lock:
            if not self.cancelled:
                for file in self.slot_files:
                    file.datasync()
                self._file.write(self.mark)
            if self._mirrors is not None:
                self._mirrors.write(self._captured)
            self.done = True

    def cancel(self) -> None:
        """A mark that is not written yet stays unwritten; waits for a write under way."""
        with self._lock:
            self.cancelled = True
