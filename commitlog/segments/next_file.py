"""NextFile makes the next file of a log: when a write needs it, or earlier in another thread.

    make                    makes a file now: the first one of a log or a queue
    begin ─► MakeTask.run   makes the next file early, in any thread, so that no write waits for it
    take                    returns the file that was begun, or makes it now

Segment logs, queues and the raft log make all their files with this class. The file system is a
port, so the same code runs on the simulator's disk.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path

from commitlog.files.system import File, FileSystem

NAME_DIGITS = 20


def segment_name(position: int) -> str:
    """File name of the segment that begins at `position` (docs/spec/store.md 0)."""
    assert position >= 0
    return f"{position:0{NAME_DIGITS}d}"


def is_segment_name(name: str) -> bool:
    """Is it a name that `segment_name` could have made?"""
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()


@lru_cache(maxsize=4096)  # a simulated node opens its files again and again
def _path(folder: str, position: int) -> Path:
    return Path(folder, segment_name(position))


class MakeTask:
    """Makes one file, once: in a helper's thread, or in the writer's if that one comes first."""

    def __init__(self, maker: NextFile, position: int) -> None:
        self._maker, self.position = maker, position
        self._lock = threading.Lock()
        self.file: File | None = None
        self._is_dropped = False

    def run(self) -> None:
        """Make the file, unless it is made or dropped. Raises OSError; it can be called again."""
        with self._lock:
            if self.file is None and not self._is_dropped:
                self.file = self._maker.make(self.position)

    def drop(self) -> None:
        """Make sure that no file is made from now on; waits while another thread makes it."""
        with self._lock:
            self._is_dropped = True


class NextFile:
    """Makes the files of one log, one after the other.

    Args:
        files: the file system port.
        folder: where the files are; made when the first one is created.
        file_size: bytes of every file.
        staging: folder on the same file system, outside `folder`, for half-made files.
        zeros: write zeros into new files instead of only allocating them.
        durable: a file and its name are on disk when it is made; False for derived files.
    """

    __slots__ = ("_durable", "_file_size", "_files", "_folder", "_staging", "_task", "_zeros")

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        file_size: int,
        *,
        staging: Path,
        zeros: bool = False,
        durable: bool = True,
    ) -> None:
        self._files, self._folder, self._file_size = files, folder, file_size
        self._staging, self._zeros, self._durable = staging, zeros, durable
        self._task: MakeTask | None = None

    def path(self, position: int) -> Path:
        """Path of the file that begins at `position`."""
        return _path(str(self._folder), position)

    def make(self, position: int) -> File:
        """The file that begins at `position`, in any thread. Raises OSError."""
        return self._files.create(
            self.path(position),
            self._file_size,
            staging=self._staging,
            zeros=self._zeros,
            durable=self._durable,
        )

    @property
    def is_begun(self) -> bool:
        """Is there a task that `take` or `drop` has not ended?"""
        return self._task is not None

    def begin(self, position: int) -> MakeTask:
        """The task that makes the next file; the same task until `take` or `drop` ends it."""
        if self._task is None:
            self._task = MakeTask(self, position)
        return self._task

    def take(self, position: int) -> File:
        """The file that begins at `position`. Raises OSError; it can be called again."""
        task = self.begin(position)
        task.run()
        self._task = None
        assert task.file is not None
        assert task.position == position, "files come one after the other"
        return task.file

    def drop(self) -> File | None:
        """End the task of `begin`; return its file if it was made, for the caller to close."""
        task, self._task = self._task, None
        if task is None:
            return None
        task.drop()
        return task.file
