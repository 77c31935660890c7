"""Sizes of derived files: as given, else taken from the files, else RocketMQ's defaults.

An index file does not say how many slots it has. The default is tried first. Then every division
of the size into slots and entries is judged by how well the files fit it: the first and the last
entry are those that the header names, and the last one's slot leads to it. Every file but the
newest is full, so its count is the number of entries; of a single file every division is tried.
A damaged file does not fit, so the others decide; when none fits, the index is damaged. Two
divisions that fit equally well are a question for the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from commitlog.errors import StoreUsageError
from commitlog.files.system import File, FileSystem
from commitlog.index.index_format import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeader,
    unpack_header,
)
from commitlog.queues.batch_queue_entry import ENTRY_SIZE as BATCH_ENTRY_SIZE
from commitlog.queues.consume_queues import BATCH_FILE_SIZE, EXT_FILE_SIZE, QUEUE_FILE_SIZE
from commitlog.queues.queue_entry import ENTRY_SIZE as QUEUE_ENTRY_SIZE
from commitlog.queues.queue_ext_unit import UNIT_SIZE_MIN

_UNITS = {  # bytes of an entry; an extension's units have any size
    "consumequeue": QUEUE_ENTRY_SIZE,
    "batchconsumequeue": BATCH_ENTRY_SIZE,
    "consumequeue_ext": 1,
}
_SIGNS_MIN = 2  # of three: a division that is wrong fits one by chance
_CHAINED_MAX = 10_000  # entries are enough to tell two divisions apart
_TRIES_MAX = 500_000  # divisions looked at, some seconds; larger odd files need the options


@dataclass(frozen=True, slots=True)
class DerivedSizes:
    """File sizes in bytes and the index geometry, None when the files fit none."""

    queue: int = QUEUE_FILE_SIZE
    batch: int = BATCH_FILE_SIZE
    ext: int = EXT_FILE_SIZE
    index: IndexGeometry | None = IndexGeometry()  # noqa: RUF009 (an immutable value)


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
        kind: _file_size(files, root / kind, unit) if root is not None else None
        for kind, unit in _UNITS.items()
    }
    queue = queue_file_size or found["consumequeue"] or default.queue
    if queue % QUEUE_ENTRY_SIZE:
        raise StoreUsageError(
            f"a consume queue file of {queue} bytes is impossible; give a multiple of 20"
        )
    batch = found["batchconsumequeue"] or queue // QUEUE_ENTRY_SIZE * BATCH_ENTRY_SIZE
    ext = found["consumequeue_ext"] or 0
    if index_slots is not None or index_entries is not None:
        usual = IndexGeometry()
        geometry: IndexGeometry | None = IndexGeometry(
            index_slots or usual.slots, index_entries or usual.entries
        )
    else:
        geometry = _index_geometry(files, root / "index" if root is not None else None)
    return DerivedSizes(queue, batch, ext if ext > UNIT_SIZE_MIN else default.ext, geometry)


def _file_size(files: FileSystem, kind: Path, unit: int) -> int | None:
    """Size of most files under <kind>/<topic>/<queue id>/ that hold whole units; None for none."""
    sizes: Counter[int] = Counter()
    for topic in files.list(kind):
        for queue_id in files.list(kind / topic) if files.is_dir(kind / topic) else ():
            folder = kind / topic / queue_id
            for name in files.list(folder) if files.is_dir(folder) else ():
                if name.isdigit() and not files.is_dir(folder / name):
                    sizes[files.file_size(folder / name)] += 1
    usable = [(count, size) for size, count in sizes.items() if size >= unit and not size % unit]
    return max(usable)[1] if usable else None


def _index_geometry(files: FileSystem, folder: Path | None) -> IndexGeometry | None:
    default = IndexGeometry()
    if folder is None:
        return default
    names = [
        name
        for name in files.list(folder)
        if name.isdigit() and not files.is_dir(folder / name) and files.file_size(folder / name)
    ]
    if not names:
        return default
    sizes = {name: files.file_size(folder / name) for name in names}
    size = Counter(sizes.values()).most_common(1)[0][0]
    if default.file_size in (size, sizes[names[0]]):
        return default
    opened = [files.open(folder / name, writable=False) for name in names if sizes[name] == size]
    try:
        headers = [(file, unpack_header(file.pread(HEADER_SIZE, 0))) for file in opened]
        if all(header.next_ordinal == 1 for _, header in headers):
            return next(iter(_divisions(size, range(2, _TRIES_MAX))), None)  # no entry: any will do
        full = {header.next_ordinal for _, header in headers[:-1]}
        return _best(_divisions(size, sorted(full)), headers, size) or _best(
            _divisions(size, range(2, _TRIES_MAX)), headers[:1], size
        )
    finally:
        for file in opened:
            file.close()


def _best(
    divisions: Iterable[IndexGeometry], headers: list[tuple[File, IndexHeader]], size: int
) -> IndexGeometry | None:
    """The division that the files fit best, None when none fits. Raises StoreUsageError."""
    best = _most(divisions, lambda geometry: sum(_signs(geometry, *pair) for pair in headers))
    if len(best) > 1:
        best = _most(best, lambda geometry: sum(_chained(geometry, *pair) for pair in headers))
    if len(best) > 1:
        raise StoreUsageError(
            f"the index files of {size} bytes do not say how many slots they have; "
            "give --index-slots and --index-entries"
        )
    return best[0] if best else None


def _most(
    divisions: Iterable[IndexGeometry], score: Callable[[IndexGeometry], int]
) -> list[IndexGeometry]:
    """The divisions with the highest score above 0."""
    best: list[IndexGeometry] = []
    highest = 1
    for geometry in divisions:
        found = score(geometry)
        if found > highest:
            best, highest = [geometry], found
        elif found == highest:
            best.append(geometry)
    return best


def _divisions(size: int, entry_counts: Iterable[int]) -> Iterator[IndexGeometry]:
    """Every geometry with one of these entry counts that makes files of `size` bytes."""
    for entries in entry_counts:
        left = size - HEADER_SIZE - entries * ENTRY_SIZE
        if left >= SLOT_SIZE and left % SLOT_SIZE == 0:
            yield IndexGeometry(left // SLOT_SIZE, entries)


def _signs(geometry: IndexGeometry, file: File, header: IndexHeader) -> int:
    """How many are right of: the first entry, the last one, its slot. One alone is chance: 0."""
    last = header.next_ordinal - 1
    if last < 1 or header.next_ordinal > geometry.entries or header.used_slots > geometry.slots:
        return 0
    signs = 0
    for ordinal, position in ((1, header.begin_offset), (last, header.end_offset)):
        data = file.pread(ENTRY_SIZE, geometry.entry_position(ordinal))
        signs += len(data) == ENTRY_SIZE and ENTRY.unpack(data)[1] == position
    data = file.pread(ENTRY_SIZE, geometry.entry_position(last))
    slot = file.pread(SLOT_SIZE, geometry.slot_position(geometry.slot_of(ENTRY.unpack(data)[0])))
    signs += int.from_bytes(slot, "big", signed=True) == last
    return signs if signs >= _SIGNS_MIN else 0


def _chained(geometry: IndexGeometry, file: File, header: IndexHeader) -> int:
    """How many entries lead to the one before them in their slot."""
    newest: dict[int, int] = {}
    count = 0
    for ordinal in range(1, header.next_ordinal):
        key_hash, _, _, previous = ENTRY.unpack(
            file.pread(ENTRY_SIZE, geometry.entry_position(ordinal))
        )
        slot = geometry.slot_of(key_hash)
        count += newest.get(slot, 0) == previous
        newest[slot] = ordinal
        if ordinal == _CHAINED_MAX:
            break
    return count
