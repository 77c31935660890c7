"""The slots of a dledger folder's index/ against its entries (docs/spec/raft_log.md 1.5).

    32 bytes per entry at index·32: magic (4) | position (8) | size (4) | index (8) | term (8)

A cache, which Java and we make anew where it is wrong. But Java's entries have no checksums, so in
a store that was closed a slot that differs says that one of the two is broken. Slots behind the
last entry may be old ones (Annex, fact 1) and are not looked at.
"""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Final

from commitlog.files.system import FileSystem
from commitlog.records.record import RecordHeader
from commitlog.store.reader import Finding, is_file_name

_SLOT = struct.Struct(">iqiqq")
SLOT_SIZE: Final = 32
_CHUNK_SIZE: Final = 1 << 16

assert _SLOT.size == SLOT_SIZE


class SlotCompare:
    """`add` every entry's header, then `findings`. `folder` is `dledger-<id>/index`."""

    def __init__(self, files: FileSystem, folder: Path, *, clean: bool) -> None:
        self._files, self._folder, self._clean = files, folder, clean
        self._found: list[Finding] = []
        self._file_size = 0
        self._starts = self._load()
        self._chunk, self._chunk_at = b"", 0
        self._missing = self._wrong = 0
        self._missing_first = self._wrong_first = -1

    def _load(self) -> frozenset[int]:
        """Addresses of the files that are as large as the others; the rest is found."""
        sizes: dict[str, int] = {}
        for name in self._files.list(self._folder):
            path = self._folder / name
            if self._files.is_dir(path):
                continue
            if is_file_name(name):
                sizes[name] = self._files.file_size(path)
            else:
                self._find(path, "this file does not belong into a store folder")
        if sizes and sizes[max(sizes)] == 0:
            del sizes[max(sizes)]
        if not any(sizes.values()):
            return frozenset()
        self._file_size = Counter(filter(None, sizes.values())).most_common(1)[0][0]
        for name, size in sorted(sizes.items()):
            if size != self._file_size or size % SLOT_SIZE:
                self._find(
                    self._folder / name,
                    f"it has {size} bytes, the other files have {self._file_size}; delete the "
                    "folder index, it is made again from the log",
                )
        if self._file_size % SLOT_SIZE:
            return frozenset()
        return frozenset(int(name) for name, size in sizes.items() if size == self._file_size)

    def add(self, header: RecordHeader) -> None:
        """Compare the slot of this entry."""
        data = self._slot(header.sequence * SLOT_SIZE)
        if data in (b"", bytes(SLOT_SIZE)):
            self._missing += 1
            self._missing_first = header.sequence if self._missing == 1 else self._missing_first
            return
        slot = _SLOT.unpack(data)
        wanted = (header.magic, header.position, header.size, header.sequence, header.epoch)
        if slot != wanted:
            self._wrong += 1
            self._wrong_first = header.sequence if self._wrong == 1 else self._wrong_first

    def _slot(self, address: int) -> bytes:
        offset = address - self._chunk_at
        if not 0 <= offset < len(self._chunk):
            start = address - address % self._file_size if self._file_size else 0
            if start not in self._starts:
                return b""
            file = self._files.open(self._folder / f"{start:020d}", writable=False)
            try:
                size = min(_CHUNK_SIZE, start + self._file_size - address)
                self._chunk, self._chunk_at = file.pread(size, address - start), address
            finally:
                file.close()
            offset = 0
        return self._chunk[offset : offset + SLOT_SIZE]

    def findings(self) -> list[Finding]:
        """Odd files, then at most one for wrong slots and one for missing ones."""
        found = list(self._found)
        if self._wrong:
            found.append(
                Finding(
                    str(self._folder),
                    self._wrong_first * SLOT_SIZE,
                    f"{self._wrong} slots, the first that of entry {self._wrong_first}, are not "
                    "what the entries say; delete the folder index, it is made again from the log",
                    self._clean,
                )
            )
        if self._missing:
            found.append(
                Finding(
                    str(self._folder),
                    self._missing_first * SLOT_SIZE,
                    f"{self._missing} slots from entry {self._missing_first} on are missing; "
                    "they are made again from the log",
                    damage=False,
                )
            )
        return found

    def _find(self, path: Path, reason: str) -> None:
        self._found.append(Finding(str(path), -1, reason))
