"""How far the log is known to be on disk (R1), in a double-slot file.

    payload:  0  8  index       last entry that was on disk when this was written, -1 for none
              8  8  term        of that entry
             16  8  position    byte address of its record, -1 for none
             24  4  chain_crc   of that record
             28  8  slots       slots up to this index are on disk in the index files
             36  8  committed   highest index known to be committed: a hint

Advanced after the log's own sync, so it may lag and never leads. It lags by 100 ms at most, also
when idle: that is the window in which acknowledged bytes that rot are taken for a torn tail.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.core.types import NO_INDEX, NO_TERM, EntryId, Index, Term
from dledger.core.value import value
from dledger.durable.double_slot import DoubleSlot
from dledger.versions import refuse_longer

FILE_NAME = "flushmark"
MARK_DELAY_S = 0.05  # half of the 100 ms the mark may lag; the other half is for the writing itself
_PAYLOAD = struct.Struct(">qqqIqq")


@value
class Mark:
    """One entry as the mark names it; `NO_MARK` for an empty log."""

    index: Index = NO_INDEX
    term: Term = NO_TERM
    position: int = -1
    chain_crc: int = 0
    slots: Index = NO_INDEX
    committed: Index = NO_INDEX


NO_MARK = Mark()


def mark_of(anchor: EntryId, chain_crc: int) -> Mark:
    """The mark of a log that is empty behind `anchor`."""
    return Mark(anchor.index, anchor.term, -1, chain_crc, anchor.index, anchor.index)


def encode(mark: Mark) -> bytes:
    """The 44 bytes of the mark, the payload of one slot."""
    return _PAYLOAD.pack(
        mark.index, mark.term, mark.position, mark.chain_crc, mark.slots, mark.committed
    )


def decode(payload: bytes) -> Mark:
    """Raises struct.error when the payload is not a mark, LaterVersion for one with more in it."""
    refuse_longer("the flush mark", len(payload), _PAYLOAD.size)
    index, term, position, chain_crc, slots, committed = _PAYLOAD.unpack(payload)
    return Mark(Index(index), Term(term), position, chain_crc, Index(slots), Index(committed))


class MarkFile:
    """The open file and the mark in it; `mark` is None when neither slot is valid.

    `older`: what the other slot says: the mark, should the newest slot rot.
    """

    def __init__(
        self,
        slots: DoubleSlot | None,
        found: Mark | None = None,
        remake: Callable[[bytes], DoubleSlot] | None = None,
    ) -> None:
        self._slots, self._remake = slots, remake
        payload = None if slots is None else slots.payload
        self.mark = found if payload is None else decode(payload)
        self.older = NO_MARK  # until `settle`: not looked at

    @classmethod
    def open(cls, files: FileSystem, folder: Path) -> MarkFile:
        """Raises FileNotFoundError."""
        return cls(DoubleSlot.open(files, folder / FILE_NAME))

    @classmethod
    def create(cls, files: FileSystem, folder: Path, mark: Mark, *, staging: Path) -> MarkFile:
        """Makes the file with `mark` in both slots, durably."""
        path = folder / FILE_NAME
        return cls(DoubleSlot.create(files, path, encode(mark), staging=staging))

    @classmethod
    def found(cls, files: FileSystem, folder: Path, mark: Mark, *, staging: Path) -> MarkFile:
        """A lost file, with `mark` in its place; the first write makes the file, durably."""
        path = folder / FILE_NAME

        def remake(data: bytes) -> DoubleSlot:
            return DoubleSlot.remake(files, path, data, staging=staging)

        return cls(None, mark, remake)

    @property
    def is_made(self) -> bool:
        """True unless the file was lost, and its mark found again and not written yet."""
        return self._slots is not None

    def write(self, mark: Mark) -> None:
        """Writes the mark over the older one and syncs it. Raises OSError: then stop (D5)."""
        if self._slots is None:
            self.write_both(mark)
            return
        self._slots.write(encode(mark))
        self.older, self.mark = self.mark or NO_MARK, mark

    def write_both(self, mark: Mark) -> None:
        """Writes and syncs the mark in one slot after the other, so that no older one is left."""
        if self._slots is None:
            assert self._remake is not None
            self._slots = self._remake(encode(mark))
        else:
            self._slots.write_both(encode(mark))
        self.older = self.mark = mark

    def settle(self) -> None:
        """See `DoubleSlot.settle`: recovery relies on this mark, so no crash may change it."""
        if self._slots is not None:
            self._slots.settle()
        self.older = self.mark or NO_MARK

    def close(self) -> None:
        """Closes the file, without a sync: each write was synced."""
        if self._slots is not None:
            self._slots.close()
