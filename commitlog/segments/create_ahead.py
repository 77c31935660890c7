"""Makes log files before they are needed, in a thread (docs/spec/store.md 6.3).

Making a file allocates (and, when asked, writes) all of it and syncs two folders; a put that rolled
into a missing file would wait for that. What is made and not used goes at a clean shutdown; after a
crash recovery removes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from commitlog.segments.background import Background
from commitlog.segments.segment_log import SegmentLog


class CreateAhead(Background):
    """Keeps `count` files beyond the one that holds `end()`.

    Errors are swallowed: the writer meets them itself when it needs the file, and says so.
    """

    def __init__(self, log: SegmentLog, end: Callable[[], int], count: int) -> None:
        super().__init__()
        self._log, self._end, self._count = log, end, count

    def start(self) -> None:
        """From here on `wake` says that the end may have moved into the last file."""
        if self._count > 0:
            self._begin(self._run, "create-ahead")

    def missing(self) -> bool:
        """Should a file be made now?"""
        last_needed = self._log.file_start(self._end()) + self._count * self._log.file_size
        return self._log.limit <= last_needed

    def _run(self) -> None:
        while not self._stopping:
            if self.missing():
                with contextlib.suppress(OSError):
                    self._log.extend(self._log.limit)
            with self._condition:
                if self._stopping:
                    return
                # A file that could not be made is tried again after a second.
                self._condition.wait(1.0 if self.missing() else None)
