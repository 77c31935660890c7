"""The base of both kinds of consume queue: files of entries of one size, and their bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from commitlog.files.system import FileSystem
from commitlog.segments.segment import Segment
from commitlog.segments.segment_log import SegmentLog


class QueueFiles(ABC):
    """The files of one queue. Offsets are message counts, positions byte addresses of the log.

    Args:
        folder: `<kind>/<topic>/<queue id>`, made when the first entry comes.
        file_size: bytes per file, a multiple of the entry's size.
        staging: folder for half-made files, outside the queues.
        opened: called with every file that is opened, so that the caller can bound open files.
        changed: called with this queue whenever its entries change, as it needs a sync then.

    Raises StoreLayoutError when the folder holds other files than this queue's.
    """

    ENTRY_SIZE: ClassVar[int]
    __slots__ = (
        "_changed",
        "_log",
        "end_position",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        file_size: int,
        *,
        staging: Path,
        topic: str = "",
        queue_id: int = 0,
        writable: bool = True,
        opened: Callable[[Segment], None] | None = None,
        changed: Callable[[Any], object] = lambda _: None,
    ) -> None:
        assert file_size % self.ENTRY_SIZE == 0
        self.topic, self.queue_id, self._changed = topic, queue_id, changed
        self._log = SegmentLog(
            files,
            folder,
            file_size,
            staging=staging,
            durable=False,
            writable=writable,
            opened=opened,
        )
        self._reset()

    @abstractmethod
    def _reset(self) -> None:
        """Set bounds and caches to their values for a queue that was not read yet."""

    @property
    def log(self) -> SegmentLog:
        """The queue's files as one address space; for flushing and for tools."""
        return self._log

    @property
    def dirty(self) -> bool:
        """True if entries were added since the last sync."""
        return self._log.dirty

    def close(self) -> None:
        """Close the files for good."""
        self._log.close()
