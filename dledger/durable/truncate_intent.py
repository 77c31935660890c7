"""A truncation that was begun and must be finished (R11), in a double-slot file.

    payload:  empty              no truncation is under way
              0  8  index        last entry that stays, -1 for none
              8  8  term         of that entry
             16  8  position     byte address of its record, -1 for none
             24  4  chain_crc    of that record
             28  8  end          byte address behind it: zeros from here on
             36  8  old_end      byte address behind the last record before the truncation

Order: intent, lowered flush mark, unlink files newest first, sync the folder, zero, sync, clear.
A crash anywhere leaves either no intent (nothing was touched) or one that recovery carries out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.core.types import Index, Term
from dledger.durable.double_slot import DoubleSlot
from dledger.versions import refuse_longer

FILE_NAME = "truncate"
_PAYLOAD = struct.Struct(">qqqIqq")


@dataclass(frozen=True, slots=True)
class Intent:
    """The last entry that stays, named as in the flush mark; bytes `end` to `old_end` go."""

    index: Index
    term: Term
    position: int
    chain_crc: int
    end: int
    old_end: int


def decode(payload: bytes) -> Intent | None:
    """The truncation that was begun; None: none is under way.

    Raises struct.error for another payload, LaterVersion.
    """
    if not payload:
        return None
    refuse_longer("a truncation that was begun", len(payload), _PAYLOAD.size)
    index, term, position, chain_crc, end, old_end = _PAYLOAD.unpack(payload)
    return Intent(Index(index), Term(term), position, chain_crc, end, old_end)


class IntentFile:
    """The open file. `is_lost`: neither slot is valid; `remake` it."""

    def __init__(self, slots: DoubleSlot) -> None:
        self._slots = slots
        self.is_lost = slots.payload is None
        self.intent: Intent | None = None
        if slots.payload:
            self.intent = decode(slots.payload)

    @classmethod
    def open(cls, files: FileSystem, folder: Path) -> IntentFile:
        """Raises FileNotFoundError."""
        return cls(DoubleSlot.open(files, folder / FILE_NAME))

    @classmethod
    def create(cls, files: FileSystem, folder: Path, *, staging: Path) -> IntentFile:
        """Makes the file anew, durably; it says that no truncation is under way."""
        return cls(DoubleSlot.create(files, folder / FILE_NAME, b"", staging=staging))

    @classmethod
    def remake(cls, files: FileSystem, folder: Path, *, staging: Path) -> IntentFile:
        """Write "no truncation is under way" into both slots of a file that was lost.

        That is safe whatever was under way: before the mark was lowered nothing had been touched.
        Behind it, entries above the mark that still fit are uncommitted ones that come back, as if
        the truncation had not gone so far; the leader orders it again. Nothing was appended
        behind them, because a node appends only after a truncation has ended (R11).
        """
        return cls(DoubleSlot.remake(files, folder / FILE_NAME, b"", staging=staging))

    def write(self, intent: Intent) -> None:
        """Writes the intent durably; only then may bytes of the log be cut (R11)."""
        self._slots.write(
            _PAYLOAD.pack(
                intent.index,
                intent.term,
                intent.position,
                intent.chain_crc,
                intent.end,
                intent.old_end,
            )
        )
        self.intent = intent

    def clear(self) -> None:
        """In both slots: were one left, rot in the other would bring the intent back."""
        self._slots.write_both(b"")
        self.intent = None

    def settle(self) -> None:
        """See `DoubleSlot.settle`: an intent that was cleared must not come back, nor vanish."""
        self._slots.settle()

    def close(self) -> None:
        """Closes the file, without a sync: each write was synced."""
        self._slots.close()
