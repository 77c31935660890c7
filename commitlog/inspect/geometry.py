"""Sizes of derived files: as given, else taken from the files, else RocketMQ's defaults.

An index file does not say how many slots it has. The default is tried first. Then: every file but
the newest is full, so its count is the number of entries; of a single file, every division into
slots and entries is tried for which the first and the last entry are those that the header names.
Two divisions that both fit, or none, are a question for the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from commitlog.consume_queues import BATCH_FILE_SIZE, EXT_FILE_SIZE, QUEUE_FILE_SIZE
from commitlog.errors import StoreUsageError
from commitlog.files import File, FileSystem
from commitlog.index_format import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeader,
    unpack_header,
)

_TRIES_MAX = 500_000  # divisions looked at, some seconds; larger odd files need the options


@dataclass(frozen=True, slots=True)
class DerivedSizes:
    """File sizes in bytes and the index geometry."""

    queue: int = QUEUE_FILE_SIZE
    batch: int = BATCH_FILE_SIZE
    ext: int = EXT_FILE_SIZE
    index: IndexGeometry = IndexGeometry()  # noqa: RUF009 (an immutable value)


def derived_sizes(
    files: FileSystem,
    root: Path | None,
    *,
    queue_file_size: int | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
) -> DerivedSizes:
    """The sizes to read (or to rebuild) with. Raises StoreUsageError when they cannot be known."""
    default = DerivedSizes()
    found = {
        kind: _file_size(files, root / kind) if root is not None else None
        for kind in ("consumequeue", "batchconsumequeue", "consumequeue_ext")
    }
    queue = queue_file_size or found["consumequeue"] or default.queue
    if queue % 20:
        raise StoreUsageError(
            f"a consume queue file of {queue} bytes is impossible; give a multiple of 20"
        )
    batch = found["batchconsumequeue"] or queue // 20 * 46
    if index_slots is not None or index_entries is not None:
        geometry = IndexGeometry(
            index_slots or default.index.slots, index_entries or default.index.entries
        )
    else:
        geometry = _index_geometry(files, root / "index" if root is not None else None)
    return DerivedSizes(queue, batch, found["consumequeue_ext"] or default.ext, geometry)


def _file_size(files: FileSystem, kind: Path) -> int | None:
    """Size of the first file under <kind>/<topic>/<queue id>/."""
    for topic in files.list(kind):
        for queue_id in files.list(kind / topic) if files.is_dir(kind / topic) else ():
            folder = kind / topic / queue_id
            for name in files.list(folder) if files.is_dir(folder) else ():
                size = files.file_size(folder / name)
                if name.isdigit() and size:
                    return size
    return None


def _index_geometry(files: FileSystem, folder: Path | None) -> IndexGeometry:
    default = IndexGeometry()
    names = [name for name in files.list(folder) if name.isdigit()] if folder is not None else []
    if folder is None or not names:
        return default
    size = files.file_size(folder / names[0])
    if size == default.file_size:
        return default
    opened = [
        files.open(folder / name, writable=False)
        for name in names
        if files.file_size(folder / name) == size
    ]
    try:
        headers = [(file, unpack_header(file.pread(HEADER_SIZE, 0))) for file in opened]
        counts = range(2, _TRIES_MAX)
        if len(headers) > 1:
            counts = range(headers[0][1].next_ordinal, headers[0][1].next_ordinal + 1)
        fitting = [g for g in _divisions(size, counts) if all(_fits(g, *pair) for pair in headers)]
    finally:
        for file in opened:
            file.close()
    if len(fitting) != 1:
        raise StoreUsageError(
            f"the index files of {size} bytes do not say how many slots they have; "
            "give --index-slots and --index-entries"
        )
    return fitting[0]


def _divisions(size: int, entry_counts: range) -> list[IndexGeometry]:
    """Every geometry with one of these entry counts that makes files of `size` bytes."""
    found: list[IndexGeometry] = []
    for entries in entry_counts:
        left = size - HEADER_SIZE - entries * ENTRY_SIZE
        if left < SLOT_SIZE:
            break
        if left % SLOT_SIZE == 0:
            found.append(IndexGeometry(left // SLOT_SIZE, entries))
    return found


def _fits(geometry: IndexGeometry, file: File, header: IndexHeader) -> bool:
    last = header.next_ordinal - 1
    if last < 1:
        return True
    if header.next_ordinal > geometry.entries or header.used_slots > geometry.slots:
        return False
    for ordinal, position in ((1, header.begin_offset), (last, header.end_offset)):
        data = file.pread(ENTRY_SIZE, geometry.entry_position(ordinal))
        if len(data) < ENTRY_SIZE or ENTRY.unpack(data)[1] != position:
            return False
    key_hash = ENTRY.unpack(file.pread(ENTRY_SIZE, geometry.entry_position(last)))[0]
    slot = file.pread(SLOT_SIZE, geometry.slot_position(geometry.slot_of(key_hash)))
    return int.from_bytes(slot, "big", signed=True) == last
