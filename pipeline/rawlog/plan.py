"""Which bytes of which files make one task's share of a log.

    entries + index   slots (32 bytes each) name every entry: a piece is a run of slots of one file
    otherwise         a piece is a byte range of one file; it has the records that begin in it
    backup            the same, cut where the files of the node's log ended (backups.py)

Pieces never cross a file, since no record does; a share may have several (shares.py). Nothing is
read here but names, sizes and slots.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from commitlog.errors import StoreUsageError
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.record import MAGIC_ENTRY
from commitlog.store.layout import StoreLayout
from commitlog.store.reader import LogPart, StoreReader
from pipeline.frames.locate import SLOT
from pipeline.options import LogOptions, OptionError, unreadable
from pipeline.places import files_of
from pipeline.rawlog.backups import Backup, backup_at
from pipeline.rawlog.shares import Piece, shares

_MAGIC = struct.Struct(">i")


def plan(options: LogOptions) -> list[Piece]:
    """The pieces of all shares, in the order of the log. Raises as `share_out` does."""
    return [piece for share in share_out(options) for piece in share]


def share_out(options: LogOptions) -> list[tuple[Piece, ...]]:
    """Equal shares of the log, each with the pieces of one task, in the order of the log.

    Raises StoreUsageError when `path` is neither store nor backup, or is open in a running
    node; OptionError when it cannot be read, or when records are to be counted and there is no
    index to count by;
    BackupDamaged when the table of a backup is not as it was written.
    """
    try:
        files, path = files_of(options)
        backup = backup_at(files, path)
        log = _of_store(options, files, path) if backup is None else _of_backup(options, backup)
    except OSError as error:
        raise unreadable(options.url or str(options.path), error) from None
    log = [replace(piece, url=options.url) for piece in log]
    return list(shares(log, options.partition_bytes, options.partition_records))


def _of_backup(options: LogOptions, backup: Backup) -> list[Piece]:
    if options.partition_records:
        raise OptionError(_wants_index(backup.folder))
    return [
        Piece(
            part.path,
            part.position,
            part.end,
            part.begin,
            part.end,
            True,
            full=True,
            start=part.begin,
        )
        for part in backup.parts(options.start_index, options.end_index)
    ]


def _of_store(options: LogOptions, files: FileSystem, path: Path) -> list[Piece]:
    with StoreReader(path, files=files) as reader:
        if not options.url:
            _refuse_open(reader.root)
        divided = min(
            (run.start for part in reader.parts if part.entries for run in part.runs), default=None
        )
        log: list[Piece] = []
        for part in reader.parts:
            index = _Index(files, part.folder.parent / "index") if part.entries else None
            for file, position, size in _files(part):
                end = size if part.entries or divided is None else min(size, divided - position)
                if end > 0:
                    log += _of_file(options, index, file, position, size, end)
    return log


def _wants_index(place: Path) -> str:
    return (
        f"recordsPerPartition wants the index of a replicated log, and {place} has none that "
        "names its entries in order; use bytesPerPartition"
    )


def _refuse_open(root: Path | None) -> None:
    if root is None or not OS_FILES.exists(StoreLayout(root).lock):
        return
    try:
        OS_FILES.lock(StoreLayout(root).lock).release()
    except (BlockingIOError, PermissionError):
        raise StoreUsageError(
            f"{root} is open in a running node; stop it, or read a copy, or read its topics with "
            'format("dledger")'
        ) from None
    except OSError:
        return  # a read-only copy: nobody runs on it


def _files(part: LogPart) -> Iterator[tuple[Path, int, int]]:
    """(path, address, size) of every file of the part, in order."""
    for run in part.runs:
        for start in run.file_starts:
            yield run.path_of(start), start, run.file_size


def _of_file(
    options: LogOptions, index: _Index | None, path: Path, position: int, size: int, end: int
) -> list[Piece]:
    if index is not None:
        found = _by_index(options, index, path, position, size)
        if found is not None:
            return found
    if options.partition_records:
        raise OptionError(_wants_index(path))
    return [Piece(path, position, size, 0, end, index is not None)]


class _Index:
    """The index files of a log. Each is read once for its range, and once where log files lie.

    Log files come in order, so the file that was read last is kept: a log of many files costs no
    more reads than it has index files, twice.
    """

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files, self._folder = files, folder
        self._ranges: list[tuple[Path, int, int]] | None = None
        self._kept: tuple[Path, np.ndarray] | None = None

    def overlapping(self, begin: int, end: int) -> Iterator[tuple[Path, np.ndarray]]:
        """Path and slots of each index file that names entries of these addresses."""
        if self._ranges is None:
            names = [name for name in self._files.list(self._folder) if name.isdigit()]
            self._ranges = [self._range(self._folder / name) for name in names]
        for path, first, last in self._ranges:
            if first < end and last >= begin:
                yield path, self._slots(path)

    def goes_on(self, log_file: Path, at: int) -> bool:
        """Is there an entry behind those that the index names? Its last slots were lost then."""
        file = self._files.open(log_file, writable=False)
        try:
            magic = file.pread(_MAGIC.size, at)
        finally:
            file.close()
        return len(magic) == _MAGIC.size and _MAGIC.unpack(magic)[0] == MAGIC_ENTRY

    def _range(self, path: Path) -> tuple[Path, int, int]:
        """With the lowest and the highest address in the file; none: a range that is empty."""
        slots = self._slots(path)
        places = slots["position"][slots["magic"] == MAGIC_ENTRY]
        return (path, int(places.min()), int(places.max())) if len(places) else (path, 0, -1)

    def _slots(self, path: Path) -> np.ndarray:
        if self._kept is None or self._kept[0] != path:
            self._kept = path, np.frombuffer(self._files.read(path), dtype=SLOT)
        return self._kept[1]


def _by_index(
    options: LogOptions, index: _Index, path: Path, position: int, size: int
) -> list[Piece] | None:
    """The file by slots; None when the index does not name all of its entries, in order."""
    found: list[Piece] = []
    next_at = position
    for name, rows in index.overlapping(position, position + size):
        inside = (rows["magic"] == MAGIC_ENTRY) & (rows["position"] >= position)
        inside &= rows["position"] < position + size
        places = np.flatnonzero(inside)
        if not len(places):
            continue
        first, last = int(places[0]), int(places[-1]) + 1
        mine = rows[first:last]
        ends = mine["position"].astype(np.int64) + mine["size"]
        if last - first != len(places) or int(mine["position"][0]) != next_at:
            return None
        if (ends[:-1] != mine["position"][1:]).any():
            return None
        next_at = int(ends[-1])
        wanted = _wanted(options, mine["index"])
        if wanted.start < wanted.stop:
            begin = int(mine["position"][wanted.start]) - position
            end = int(ends[wanted.stop - 1]) - position
            slots = first + wanted.start, first + wanted.stop
            found.append(Piece(path, position, size, begin, end, True, str(name), *slots))
    left = position + size - next_at
    if next_at == position or (left > 0 and index.goes_on(path, next_at - position)):
        return None
    return found


def _wanted(options: LogOptions, indexes: np.ndarray) -> slice:
    """The slots within startIndex..endIndex."""
    first = int(np.searchsorted(indexes, max(options.start_index, 0)))
    last = len(indexes)
    if options.end_index >= 0:
        last = int(np.searchsorted(indexes, options.end_index))
    return slice(first, max(last, first))
