"""Disk work captured at one moment; run once, from any thread, later writes not being part of it.

    SegmentSync   the dirty files of one log: pinned, so that their descriptors stay
    QueueSync     the dirty files of many small logs: each is opened for its sync, so that however
                  many there are, one descriptor is taken

Files first, in address order, then the folders that got new names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commitlog.files.system import FileSystem
from commitlog.segments.segment import Segment

FOLDER_DEPTH = 3  # <root>/consumequeue/<topic>/<queue>: folders are made without a sync on the way


class SegmentSync:
    """The sync of a log's dirty files. `run` once, from any thread; raises OSError."""

    __slots__ = ("_files", "_folder", "_pinned", "_segments")

    def __init__(self, files: FileSystem, segments: list[Segment], folder: Path | None) -> None:
        """`folder`: has new names; it and the folders above it are synced, too."""
        self._files, self._segments, self._folder = files, segments, folder
        # What is closed stays closed: very many dirty files would want a descriptor each.
        self._pinned = [segment for segment in segments if segment.is_open]
        for segment in self._pinned:
            segment.pin()

    def run(self) -> None:
        """Sync every captured file in address order, then the folders of new files."""
        segments, pinned = self._segments, set(self._pinned)
        self._segments = []
        try:
            for segment in segments:
                if segment in pinned:
                    segment.file.datasync()
                else:
                    segment.sync_closed()
            for folder in _upwards(self._folder):
                self._files.sync_dir(folder)
        finally:
            for segment in pinned:
                segment.unpin()


class QueueSync:
    """The sync of many queues' dirty files. `run` once, from any thread; raises OSError.

    `folders`: of queues with new names; those above them are shared, and each is synced once.
    """

    __slots__ = ("_files", "_folders", "_segments")

    def __init__(
        self, files: FileSystem, segments: Sequence[Segment], folders: Sequence[Path]
    ) -> None:
        self._files, self._segments, self._folders = files, segments, folders

    def run(self) -> None:
        """Sync every captured file, then every folder that got a new name."""
        for segment in self._segments:
            segment.sync_closed()
        every = [above for folder in self._folders for above in _upwards(folder)]
        for folder in dict.fromkeys(every):
            self._files.sync_dir(folder)


def _upwards(folder: Path | None) -> list[Path]:
    """A queue's folder and those that were made for it, down from the store's root."""
    return [] if folder is None else [folder, *list(folder.parents)[:FOLDER_DEPTH]]
