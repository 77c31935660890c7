"""A bound for the descriptors of many small files.

    opened ─► newest │ … │ oldest ─► closed when there are more than `files_max`; opens again itself

Very many queues would otherwise hold a descriptor each until the next sync. A file may be closed
while it is dirty: its pages belong to the kernel, and the next sync opens it again. Not
thread-safe: files are opened on the owner's thread, except for a sync, which does not count.
"""

from __future__ import annotations

from collections import deque

from commitlog.segments.segment import Segment

CLOSED_AT_ONCE_MAX = 2  # after many were pinned for a while: one comes, two go, nothing stalls


class OpenFiles:
    """Keeps at most `files_max` segments open; pinned ones stay and are looked at again."""

    def __init__(self, files_max: int) -> None:
        assert files_max > 0
        self._files_max = files_max
        self._opened: deque[Segment] = deque()

    def opened(self, segment: Segment) -> None:
        """`segment` has a descriptor now; the one opened first may lose its own."""
        opened = self._opened
        opened.append(segment)
        # All but the one that is opened now: it is about to be used.
        for _ in range(min(len(opened) - self._files_max, CLOSED_AT_ONCE_MAX)):
            oldest = opened.popleft()
            if not oldest.rest() and oldest.is_open:
                opened.append(oldest)
