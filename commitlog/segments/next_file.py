"""The file behind the last one of a log: made when it is needed, or ahead of that.

    make                    now: the first file of a log, of a queue
    begin ─► MakeTask.run   ahead, in any thread: what a write needs is there already
    take                    the file that was begun, or one made now

Segment logs, queues and the raft log get their files here and nowhere else; the file system is a
port, so the simulator's disk makes them as well.
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


@lru_cache(maxsize=4096)  # a simulated node opens its files again and again
def _path(folder: str, position: int) -> Path:
    return Path(folder, segment_name(position))


class MakeTask:
    """Make one file ahead; the first thread does it: a helper, or the writer that needs it."""

    def __init__(self, maker: NextFile, position: int) -> None:
        self._maker, self.position = maker, position
        self._lock = threading.Lock()
        self.file: File | None = None
        self._is_dropped = False

    def run(self) -> None:
        """Raises OSError; it can be called again."""
        with self._lock:
            if self.file is None and not self._is_dropped:
                self.file = self._maker.make(self.position)

    def drop(self) -> None:
        """Never make it; wait if it is being made just now."""
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
        """The task that makes the file ahead; the same one until it is taken or dropped."""
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
        """Make no file ahead any more; one that was made and not taken is handed to the caller."""
        task, self._task = self._task, None
        if task is None:
            return None
        task.drop()
        return task.file
