"""One pass piece of the scrubber: verifies records on disk, in a thread.

Everything that a record says of itself is verified against the bytes before it (`check.py`), and
its index slot against the record. The owner's thread takes the list of file pieces when it makes
the task, so nothing that it does meanwhile to its rows matters here; the bytes themselves do not
change, because only committed entries are looked at.

    Scrubber.begin_scrub ─► Scrub.run (thread): pread, verify ─► Scrubber.finish_scrub
"""

from __future__ import annotations

from collections.abc import Sequence

from commitlog.files.system import File
from commitlog.records.record import U32
from dledger.core.types import EntryId, Index, Term
from dledger.log.check import SLOT, Checked, Tail, check_records

#: Bytes of one record that cannot be told from its own damaged header: the longest frame there is,
#: and a blank before it that is nearly as long.
RECORD_BYTES_MAX = 128 << 20
_CHAIN_AT = 36

Pieces = Sequence[tuple[File, int, int]]  # file, offset in it, bytes


def read_pieces(pieces: Pieces, size: int) -> bytes:
    """The first `size` bytes of the pieces, fewer where they end. Raises OSError."""
    parts = []
    for file, offset, step in pieces:
        if size <= 0:
            break
        parts.append(file.pread(min(step, size), offset))
        size -= step
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Scrub:
    """Verify records `start.id.index + 1`..`last`, about `size` bytes of them, one at least.

    `data`: pieces from address `start.end` on, as far as the log goes; `slots`: pieces from the
    slot of the first record on. After `run`:

    Attributes:
        tail: of the last record that is whole; `start` when none is.
        read_bytes: how much was read.
        reason: why the record behind `tail` is damaged, "" when nothing was found.
        packed: the slots of the records up to `tail`, as they should be.
        slots_differ: they are not that on disk.
        cancelled: what was looked at is truncated.
    """

    def __init__(
        self,
        start: Tail,
        last: Index,
        size: int,
        data: Pieces,
        slots: Pieces,
        *,
        file_size: int,
        zero_below: int,
    ) -> None:
        self.start, self.last = start, last
        self._size, self._data, self._slots = size, data, slots
        self._file_size, self._zero_below = file_size, zero_below
        self.tail, self.reason, self.packed = start, "", b""
        self.read_bytes = 0
        self.slots_differ = self.cancelled = False

    def cut_after(self, index: Index) -> None:
        """Entries above `index` are about to be truncated."""
        if self.last > index:
            self.cancelled = True

    def run(self) -> None:
        """Raises OSError when the disk cannot read."""
        if self.start.id.index >= self.last:
            return
        data, checked = self._read()
        count = min(len(checked.slots), self.last - self.start.id.index)
        self.packed = b"".join(checked.slots[:count])
        if count:
            self.tail = _tail_of(checked.slots[count - 1], data, self.start.end)
        if self.tail.id.index < self.last and not (checked.slots and checked.cut_short):
            self.reason = checked.reason
        found = read_pieces(self._slots, len(self.packed))
        self.read_bytes = len(data) + len(found)
        self.slots_differ = found != self.packed

    def _read(self) -> tuple[bytes, Checked]:
        """Enough bytes for one whole record at least, unless there is none."""
        size, there = self._size, sum(step for _, _, step in self._data)
        while True:  # ends: a record is found, a reason is, or the bytes end
            data = read_pieces(self._data, size)
            view = memoryview(data)
            checked = check_records(view, self.start, self._file_size, self._zero_below)
            if checked.slots or not checked.cut_short or size >= min(there, RECORD_BYTES_MAX):
                return data, checked
            size *= 2


def _tail_of(slot: bytes, data: bytes, base: int) -> Tail:
    _, position, size, index, term = SLOT.unpack(slot)
    chain_crc = int(U32.unpack_from(data, position - base + _CHAIN_AT)[0])
    return Tail(EntryId(Term(term), Index(index)), chain_crc, position + size)
