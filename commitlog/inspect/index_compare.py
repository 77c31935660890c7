"""Compares the key index on disk with the log (docs/spec/store.md 4).

Keys stand in the files in log order, so one walk over the entries goes along with the walk over the
log. Each entry's hash, position and time are the message's, its chain leads to the entry before it
in its slot, and at the end of a file slots and header are what its entries make of them.

After a crash slots and header may be of any moment, and the last keys may be missing: then only the
entries count. RocketMQ and we delete or remake such files at the next start.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

from commitlog.files.system import FileSystem
from commitlog.index.index_format import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexEntry,
    IndexGeometry,
    IndexHeader,
    seconds_since,
    unpack_header,
)
from commitlog.records.accel import index_key_hash
from commitlog.records.message_fast import ScannedRecord
from commitlog.store.reader import Finding

_ENTRIES_AT_ONCE = 50_000  # 1 MB


class _File:
    """One index file on its way through the walk."""

    def __init__(self, files: FileSystem, path: Path, geometry: IndexGeometry) -> None:
        self.path, self._geometry = path, geometry
        self._file = files.open(path, writable=False)
        header = unpack_header(self._file.pread(HEADER_SIZE, 0))
        self.fault = ""
        if header.next_ordinal > geometry.entries:
            self.fault = f"its header counts {header.next_ordinal - 1} entries, more than fit"
            header = header._replace(next_ordinal=geometry.entries)
        self.header: IndexHeader = header
        self._slots = array("i", bytes(geometry.slots * SLOT_SIZE))
        self._used = 0
        self.ordinal = 0
        self.last = IndexEntry(0, 0, 0, 0)

    def entries(self) -> Iterator[IndexEntry]:
        """All of them, oldest first; their chains are followed."""
        count = self.header.next_ordinal - 1
        while self.ordinal < count:
            size = min(_ENTRIES_AT_ONCE, count - self.ordinal) * ENTRY_SIZE
            data = self._file.pread(size, self._geometry.entry_position(self.ordinal + 1))
            for entry in map(IndexEntry._make, ENTRY.iter_unpack(data)):
                self.ordinal += 1
                self._follow(entry)
                yield entry

    def _follow(self, entry: IndexEntry) -> None:
        self.last = entry
        if self.ordinal == 1 and entry.physical_offset != self.header.begin_offset:
            self.misfit(f"its header begins at position {self.header.begin_offset}")
        slot = self._geometry.slot_of(entry.key_hash)
        if entry.previous != self._slots[slot]:
            self.misfit(
                f"entry {self.ordinal} leads to entry {entry.previous} instead of "
                f"{self._slots[slot]}"
            )
        self._used += not self._slots[slot]
        self._slots[slot] = self.ordinal

    def check_time(self, store_ms: int) -> None:
        """The entry handed out last is of a message stored at `store_ms`."""
        header = self.header
        if self.ordinal == 1 and store_ms != header.begin_timestamp_ms:
            self.misfit(f"its header begins at time {header.begin_timestamp_ms}")
        if self.ordinal == header.next_ordinal - 1 and store_ms != header.end_timestamp_ms:
            self.misfit(f"its header ends at time {header.end_timestamp_ms}")
        # The first entry's seconds count from the end of a file that may be gone.
        wanted = seconds_since(header.begin_timestamp_ms, store_ms)
        if self.ordinal > 1 and self.last.seconds != wanted:
            self.misfit(f"entry {self.ordinal} has time {self.last.seconds} instead of {wanted}")

    def misfit(self, reason: str) -> None:
        """Remember `reason`, unless an earlier one is known."""
        self.fault = self.fault or reason

    def finish(self) -> None:
        """Every entry was seen: compare slots and header with them."""
        if self.ordinal:
            if self.last.physical_offset != self.header.end_offset:
                self.misfit(f"its header ends at position {self.header.end_offset}")
            if self._used != self.header.used_slots:
                self.misfit(f"its header counts {self.header.used_slots} slots, {self._used} are")
        if sys.byteorder == "little":
            self._slots.byteswap()
        if self._file.pread(len(self._slots) * SLOT_SIZE, HEADER_SIZE) != self._slots.tobytes():
            self.misfit("its slots do not lead to the newest entries")

    def close(self) -> None:
        self._file.close()


class IndexCompare:
    """`add` every key in log order, then `findings`.

    `geometry` None: the files do not say how they are divided. `clean`: the store was closed.
    """

    def __init__(
        self, files: FileSystem, folder: Path, geometry: IndexGeometry | None, *, clean: bool
    ) -> None:
        self._files, self._folder, self._clean = files, folder, clean
        self._found: list[Finding] = []
        self._current: _File | None = None
        self._expected = self._missing = self._extra = 0
        self._fault = ""
        self._names = self._usable(geometry)
        self._entries = self._walk(geometry) if geometry is not None else iter(())
        self._next = next(self._entries, None)

    def _usable(self, geometry: IndexGeometry | None) -> list[str]:
        """Names of the files; those of another size are found."""
        names = [
            name
            for name in self._files.list(self._folder)
            if name.isdigit() and not self._files.is_dir(self._folder / name)
        ]
        if geometry is None:
            self._find(
                self._folder,
                "the files fit no number of slots and entries; they are damaged and can be "
                "rebuilt, unless --index-slots and --index-entries say how they are divided",
            )
            return []
        usable = []
        for name in names:
            size = self._files.file_size(self._folder / name)
            if size == geometry.file_size:
                usable.append(name)
            else:
                self._find(
                    self._folder / name,
                    f"it has {size} bytes, {geometry.slots} slots and {geometry.entries} entries "
                    f"make {geometry.file_size}; rebuild the index",
                )
        return usable

    def _walk(self, geometry: IndexGeometry) -> Iterator[IndexEntry]:
        """Entries of all files, oldest first."""
        for name in self._names:
            self._current = _File(self._files, self._folder / name, geometry)
            try:
                yield from self._current.entries()
                self._current.finish()
                if self._current.fault and self._clean:
                    self._find(self._current.path, f"{self._current.fault}; rebuild the index")
            finally:
                self._current.close()

    def add(self, record: ScannedRecord, key: bytes, *, required: bool) -> None:
        """The next key of the log. `required`: it must be in the index."""
        self._expected += 1
        while self._next is not None and self._next.physical_offset < record.physical_offset:
            self._extra += 1  # of a message that is damaged now, or never was
            self._next = next(self._entries, None)
        if self._next is None:
            self._missing += required
        elif self._next[:2] == (index_key_hash(record.topic, key), record.physical_offset):
            assert self._current is not None
            self._current.check_time(record.store_timestamp_ms)
            self._next = next(self._entries, None)
        elif not self._fault:
            self._fault = f"it has no entry for a key of the message at {record.physical_offset}"

    def findings(self, *, log_damaged: bool) -> list[Finding]:
        """A finding for each broken file, and one for keys that the whole index lacks or adds."""
        if self._next is not None:
            self._extra += 1 + sum(1 for _ in self._entries)
        if self._extra and not log_damaged:
            self._fault = self._fault or "it has entries that the log does not explain"
        found = list(self._found)
        if self._fault:
            found.append(Finding(str(self._folder), -1, f"{self._fault}; rebuild the index"))
        elif self._missing and not found:
            found.append(
                Finding(
                    str(self._folder),
                    -1,
                    f"{self._missing} of {self._expected} keys are missing at its end; "
                    + missing_advice(clean=self._clean),
                    self._clean,
                )
            )
        return found

    def _find(self, path: Path, reason: str) -> None:
        self._found.append(Finding(str(path), -1, reason))

    def close(self) -> None:
        """Close the open index file, however far the walk has come."""
        if self._current is not None:
            self._current.close()


def missing_advice(*, clean: bool) -> str:
    """The advice for derived files that end too early."""
    if clean:
        return "the store was closed with them, so rebuild it"
    return "usual after a crash, the next start makes them"
