"""States of the machine at the beginnings of log files, so that older files can be deleted.

    <folder>/snapshots/<20 digits>               the state where the log file of that address begins
    <folder>/snapshots/<20 digits>.<20 digits>   a part of one that a leader sends, from that offset

    off size
      0   4  magic      "DLSS"
      4   4  version    1
      8   8  term       of the last entry that the state holds (R15)
     16   8  index      of that entry
     24   4  chain_crc  of that entry
     28   4  crc        CRC-32 of the whole state
     32   8  size       of the whole state
     40   8  offset     of the bytes below in it
     48   4  head_crc   CRC-32 of bytes 0-47 and of the bytes below
     52   n  bytes of the state

Each file is written whole or not at all. Parts are kept one by one, so that a receiver that is
killed goes on behind the last one; when they are complete and the whole has the right checksum they
become one file, and go.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer, FileSystem
from commitlog.records.checksum import crc32
from dledger.log.log_start import LogStart

FOLDER = "snapshots"
#: Of one state. Topics, groups and 10,000 producers take a few MB; bounds a hostile peer.
STATE_BYTES_MAX = 1 << 30

_HEAD = struct.Struct(">4sIqqIIqq")
_CRC = struct.Struct(">I")
_DATA_AT = _HEAD.size + _CRC.size
_MAGIC, _VERSION = b"DLSS", 1
_DIGITS = 20  # of an address in a name
assert _DATA_AT == 52


class Snapshot(NamedTuple):
    """Which state: that of the log up to entry `index`, `size` bytes with this checksum."""

    term: int
    index: int  # type: ignore[assignment]  # hides tuple.index, as in EntryId
    chain_crc: int
    crc: int
    size: int


class Part(NamedTuple):
    """Bytes of a snapshot from `offset` on."""

    snapshot: Snapshot
    offset: int
    data: bytes


def snapshot_of(start: LogStart, state: bytes) -> Snapshot:
    """Anchor of `start`, with size and crc32 of the `state` that entries up to it led to."""
    return Snapshot(start.term, start.index, start.chain_crc, crc32(state), len(state))


class SnapshotFolder:
    """The files. Every call may run in any thread; calls about one position follow each other."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files, self._folder = files, folder / FOLDER
        self._staging = folder / "staging"

    def save(self, start: LogStart, state: bytes) -> None:
        """Durable when this returns. Raises OSError."""
        self._write(_name(start.position), Part(snapshot_of(start, state), 0, state))

    def positions(self) -> list[int]:
        """Beginnings of log files with a state here, ascending addresses."""
        return sorted(int(name) for name in self._names() if name.isdigit())

    def load(self, start: LogStart) -> bytes:
        """The state where the log begins. Raises StoreDamaged when it is missing or damaged."""
        name = _name(start.position)
        part = self._read(name)
        if part is None or part.offset or part.snapshot != snapshot_of(start, part.data):
            raise StoreDamaged(
                "the state that deleted entries led to is missing or damaged; rebuild this replica "
                "from its peers",
                path=str(self._folder / name),
                position=0,
            )
        return part.data

    def drop_before(self, position: int) -> None:
        """Remove states where no log file begins any more, and parts of them. Raises OSError."""
        names = [name for name in self._names() if int(name[:_DIGITS]) < position]
        for name in names:
            self._files.remove(self._folder / name)
        if names:
            self._files.sync_dir(self._folder)

    # -- receiving ---------------------------------------------------------------------------------

    def receive(self, position: int, part: Part) -> tuple[int, bool]:
        """Keep the part if it is the next one; how many bytes are here, and whether that is all.

        Parts of another snapshot go; so do all of one whose checksum is wrong in the end. Raises
        OSError.
        """
        wanted, parts = part.snapshot, self._parts(position, part.snapshot)
        whole = self._read(_name(position))
        if whole is not None and whole.snapshot == wanted:
            return wanted.size, True
        have = sum(len(known.data) for known in parts)
        if part.data and part.offset == have and have + len(part.data) <= wanted.size:
            self._write(f"{_name(position)}.{have:020}", part)
            parts.append(part)
            have += len(part.data)
        if have < wanted.size:
            return have, False
        state = b"".join(known.data for known in parts)
        right = crc32(state) == wanted.crc
        if right:
            self._write(_name(position), Part(wanted, 0, state))
        self._drop_parts()
        return (have, True) if right else (0, False)

    def _parts(self, position: int, wanted: Snapshot) -> list[Part]:
        """The parts that are here, in order from the beginning; others are removed."""
        found: list[Part] = []
        for name in self._names():
            if name.isdigit():
                continue
            part = self._read(name)
            behind = sum(len(known.data) for known in found)
            if (
                int(name[:_DIGITS]) == position
                and part is not None
                and part[:2] == (wanted, behind)
            ):
                found.append(part)
            else:
                self._files.remove(self._folder / name)
        return found

    def _drop_parts(self) -> None:
        for name in self._names():
            if not name.isdigit():
                self._files.remove(self._folder / name)
        self._files.sync_dir(self._folder)

    # -- files -------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Names of our own files; other files in the folder are left alone."""
        return [name for name in self._files.list(self._folder) if name[:_DIGITS].isdigit()]

    def _write(self, name: str, part: Part) -> None:
        self._files.make_dirs(self._folder)
        term, index, chain_crc, crc, size = part.snapshot
        head = _HEAD.pack(_MAGIC, _VERSION, term, index, chain_crc, crc, size, part.offset)
        data = head + _CRC.pack(crc32(part.data, crc32(head))) + part.data
        self._files.write_atomic(self._folder / name, data, staging=self._staging)

    def _read(self, name: str) -> Part | None:
        """None: missing or damaged."""
        path = self._folder / name
        if not self._files.exists(path):
            return None
        data = self._files.read(path)
        if len(data) < _DATA_AT:
            return None
        magic, version, term, index, chain_crc, crc, size, offset = _HEAD.unpack_from(data)
        state = data[_DATA_AT:]
        (head_crc,) = _CRC.unpack_from(data, _HEAD.size)
        if (magic, version) != (_MAGIC, _VERSION):
            return None
        if crc32(state, crc32(data[: _HEAD.size])) != head_crc:
            return None
        return Part(Snapshot(term, index, chain_crc, crc, size), offset, state)


def _name(position: int) -> str:
    return f"{position:0{_DIGITS}}"


def part_of(state: bytes, snapshot: Snapshot, offset: int, size_max: int) -> Part:
    """At most `size_max` bytes of a state from `offset` on."""
    return Part(snapshot, offset, state[offset : offset + size_max])


def is_possible(snapshot: Snapshot, data: Buffer, offset: int) -> bool:
    """Could a peer mean this? Asked before anything is kept."""
    return 0 <= snapshot.size <= STATE_BYTES_MAX and 0 <= offset <= snapshot.size - len(data)
