"""Where one log begins, ends, and how far of it is on disk: the record that its parts share.

    before ≤ committed ≤ flushed ≤ tail

The owner's thread alone changes it: `FileLog` the end, `LogFlush` what is flushed and committed,
`LogPrefix` the beginning.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from dledger.core.types import Index, TermRun
from dledger.durable.flush_mark import Mark
from dledger.log.check import Tail


@dataclass(slots=True)
class LogPointers:
    """The pointers of one log.

    Attributes:
        before: what the first entry continues; it may end below the first file (R10).
        tail: the last entry, its checksum and its end.
        last_position: address of the last record, -1 without one.
        runs: the terms of all entries, oldest first.
        flushed: the last entry that a sync covered.
        committed: the last entry that was committed and applied here, -1 when unknown; a hint.
        failed: a write or a sync raised, or the owner gave up: the log takes nothing more (D5).
    """

    before: Tail
    tail: Tail
    last_position: int
    runs: list[TermRun]
    flushed: Mark
    committed: Index
    failed: bool = False

    def end_mark(self) -> Mark:
        """The flush mark of a log that is on disk up to its end."""
        (term, index), chain_crc, _ = self.tail
        return Mark(index, term, self.last_position, chain_crc or 0)

    def check_usable(self) -> None:
        """Raises OSError after a failure."""
        if self.failed:
            raise OSError(errno.EIO, "the log failed before; stop this replica and start it again")
