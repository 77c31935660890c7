"""ConsumeQueueExt: filter data beside a queue, one unit per message (docs/spec/store.md 3.4).

    consumequeue_ext/<topic>/<queue id>/<20 digits>       units are drawn in queue_ext_unit.py

The queue's entry holds the unit's address in place of the tags code. Where a unit does not fit,
FF FF ends the file. Losing this data costs only filter speed, so reading damage gives None.

What a crash may leave: units without an entry (cut off by `recover`), or entries whose unit is
gone (read as None).
"""

from __future__ import annotations

from pathlib import Path

from commitlog.files.system import FileSystem
from commitlog.queues.queue_entry import ext_address, ext_offset, is_ext_address
from commitlog.queues.queue_ext_unit import (
    FILE_END,
    UNIT_SIZE_MAX,
    UNIT_SIZE_MIN,
    QueueExtUnit,
    fits,
    pack_ext_unit,
    unpack_ext_unit,
)
from commitlog.segments.segment_log import SegmentLog
from commitlog.segments.segment_sync import SegmentSync


class ConsumeQueueExt:
    """Units of one queue; arguments as for `ConsumeQueue`, any `file_size` above a unit's."""

    __slots__ = ("_end", "_log")

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        file_size: int,
        *,
        staging: Path,
        writable: bool = True,
    ) -> None:
        assert file_size > UNIT_SIZE_MIN
        self._log = SegmentLog(
            files, folder, file_size, staging=staging, durable=False, writable=writable
        )
        self._end = self._log.start

    @property
    def log(self) -> SegmentLog:
        """The segments below it, for syncs and retention."""
        return self._log

    @property
    def end(self) -> int:
        """Offset behind the last unit."""
        return self._end

    def recover(self, address_max: int | None) -> None:
        """Keep the units up to `address_max`, the highest address found in the queue (or none)."""
        if address_max is None or not is_ext_address(address_max):
            self.remove()
            return
        last = ext_offset(address_max)
        unit = self.get(address_max)
        if unit is None:
            self.remove()
            return
        self._end = last + unit.size
        self._log.truncate(self._end)

    def put(self, unit: QueueExtUnit) -> int:
        """Append a unit; return its address for the queue's entry. Raises OSError."""
        data = pack_ext_unit(unit)
        assert fits(len(data), self._log.file_size), "a unit larger than a file is never made"
        left = self._log.left(self._end) if self._log.file_starts else self._log.file_size
        if not fits(len(data), left):
            self._log.ensure(self._end)
            self._log.pwrite(FILE_END, self._end)
            self._end += left
        self._log.ensure(self._end)
        self._log.pwrite(data, self._end)
        address = ext_address(self._end)
        self._end += len(data)
        return address

    def get(self, address: int) -> QueueExtUnit | None:
        """The unit at `address`; None when it is not there or is no unit."""
        offset = ext_offset(address)
        if not self._log.start <= offset < self._log.limit:
            return None
        size = min(UNIT_SIZE_MAX, self._log.left(offset))
        return unpack_ext_unit(self._log.pread(size, offset))

    def drop_before(self, address_min: int) -> int:
        """Remove whole files below the unit at `address_min`; return how many."""
        return self._log.drop_before(ext_offset(address_min))

    @property
    def dirty(self) -> bool:
        """True if units were added since the last sync."""
        return self._log.dirty

    def capture(self) -> SegmentSync:
        """The sync of all units so far; it may run in any thread."""
        return self._log.capture()

    def rest(self) -> None:
        """Close the files until they are needed again."""
        self._log.rest()

    def remove(self) -> None:
        """Remove every file."""
        self._log.drop_after(0)
        self._log.start_at(0)
        self._end = 0

    def close(self) -> None:
        """Close the files for good."""
        self._log.close()
