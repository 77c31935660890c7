"""A small value in a file of two slots; one of them is always whole.

    off   size
      0   4096  slot 0        4096   4096  slot 1

    slot:  0  4  magic "DLS1"
           4  4  length of the payload in bytes
           8  8  sequence: the valid slot with the higher one counts
          16  4  crc32 of bytes 0-15 and the payload
          20  n  payload, at most 4076 bytes; zeros behind it

Writing goes to the slot that does not count, then syncs. A crash leaves the old value or the new
one, whole; a slot has its own 4-KiB block, so that no torn write reaches the other.
`write_both` writes and syncs one slot after the other: then either may rot later (R7).
"""

from __future__ import annotations

import struct
from pathlib import Path

from commitlog.files.system import File, FileSystem
from commitlog.records.checksum import crc32
from dledger.errors import LaterVersion

SLOT_SIZE = 4096
FILE_SIZE = 2 * SLOT_SIZE
_HEAD = struct.Struct(">4siqI")
_HEAD16 = struct.Struct(">4siq")
_MAGIC, _NO_MAGIC = b"DLS1", b"DLS:"  # later forms count on, up to DLS9
PAYLOAD_SIZE_MAX = SLOT_SIZE - _HEAD.size  # one block, so that a slot is torn alone


class DoubleSlot:
    """The open file. `payload` is the newest valid value, None when neither slot is valid."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.payload: bytes | None = None
        self.sequence = 0
        self._newest = 1
        for number in (0, 1):
            found = decode_slot(file.pread(SLOT_SIZE, number * SLOT_SIZE))
            if found is not None and found[0] > self.sequence:
                self.sequence, self.payload = found
                self._newest = number

    @classmethod
    def open(cls, files: FileSystem, path: Path) -> DoubleSlot:
        """Open an existing file; raises FileNotFoundError, LaterVersion."""
        if not files.exists(path):
            raise FileNotFoundError(2, "the file is missing", str(path))
        file = files.open(path)
        found = cls(file)
        if found.payload is None and is_later(file.pread(FILE_SIZE, 0)):
            found.close()
            raise LaterVersion(f"both slots of {path} are of a form that is not known here")
        return found

    @classmethod
    def create(cls, files: FileSystem, path: Path, payload: bytes, *, staging: Path) -> DoubleSlot:
        """Make the file anew, with `payload` in both slots, durably."""
        if files.exists(path):
            files.remove(path)
            files.sync_dir(path.parent)
        slot = cls(files.create(path, FILE_SIZE, staging=staging))
        slot.write_both(payload)
        return slot

    @classmethod
    def remake(cls, files: FileSystem, path: Path, payload: bytes, *, staging: Path) -> DoubleSlot:
        """Write `payload` into both slots, durably: in place, so that a full disk has space.

        A file that is gone or has another size is made anew.
        """
        if not files.exists(path) or files.file_size(path) != FILE_SIZE:
            return cls.create(files, path, payload, staging=staging)
        slot = cls(files.open(path))
        slot.write_both(payload)
        return slot

    def write(self, payload: bytes) -> None:
        """Write into the slot that does not count, and sync. Raises OSError: then stop."""
        assert len(payload) <= PAYLOAD_SIZE_MAX
        sequence, number = self.sequence + 1, 1 - self._newest
        head = _HEAD16.pack(_MAGIC, len(payload), sequence)
        record = head + crc32(payload, crc32(head)).to_bytes(4, "big") + payload
        self._file.pwrite(record.ljust(SLOT_SIZE, b"\0"), number * SLOT_SIZE)
        self._file.datasync()
        self.sequence, self._newest, self.payload = sequence, number, payload

    def settle(self) -> None:
        """Make the value that was read durable: a killed process may have left it un-synced.

        Without this a node would act on it, and the next power cut would take it back (R3).
        """
        if self.payload is not None:
            self.write_both(self.payload)

    def write_both(self, payload: bytes) -> None:
        """Write and sync `payload` into one slot, then into the other. Raises OSError."""
        self.write(payload)
        self.write(payload)

    def close(self) -> None:
        """Closes the file, without a sync: each write was synced."""
        self._file.close()


def read_payload(files: FileSystem, path: Path) -> bytes | None:
    """The newest valid value of a file that is only read; None: it is lost. Raises LaterVersion."""
    data = files.read(path) if files.exists(path) else b""
    whole = [slot for slot in slots_of(data) if slot is not None]
    if not whole and is_later(data):
        raise LaterVersion(f"both slots of {path} are of a form that is not known here")
    return max(whole)[1] if whole else None


def is_later(data: bytes) -> bool:
    """Are both slots of a file of a later form? One byte that rots makes one look so, not both."""
    marks = {data[at : at + len(_MAGIC)] for at in (0, SLOT_SIZE)}
    return len(marks) == 1 and _MAGIC < marks.pop() < _NO_MAGIC


def slots_of(data: bytes) -> list[tuple[int, bytes] | None]:
    """The two slots of a file as (sequence, payload), None for one that is not valid."""
    return [decode_slot(data[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]


def decode_slot(data: bytes) -> tuple[int, bytes] | None:
    """(sequence, payload) of one slot, None when it is not valid."""
    if len(data) < SLOT_SIZE:
        return None
    magic, length, sequence, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or not 0 <= length <= PAYLOAD_SIZE_MAX or sequence < 1:
        return None
    payload = data[_HEAD.size : _HEAD.size + length]
    if crc32(payload, crc32(data[:16])) != crc:
        return None
    return sequence, payload
