"""The storage ports of the replicated log, with their durability contract.

    LogStore        entries in DLedger's layout, as bytes at positions
    HardStateStore  term, vote, incarnation

`memory.py` is the reference, `file_log.py` and `hard_state.py` the real ones, `conformance.py` the
suite that every implementation must pass.

Contract
--------
* Writes (`append`, `append_range`) return when the bytes can be read back, and are **not** durable.
* `begin_sync` captures what is written at that moment; `SyncTask.run` (any thread) makes exactly
  that durable; `finish_sync` (the owner's thread) moves `flushed` up to it, minus what was
  truncated meanwhile, and returns it. One task at a time.
* `truncate_after` is durable and physical when it returns: no later crash brings a dropped byte
  back (D6, R11).
* Any OSError from any call means the store is failed: the caller stops using it (D5).
* Reads verify checksums and raise `StoreDamaged`; nothing damaged is ever returned (D7).
* All calls but `SyncTask.run` come from one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from commitlog.files.system import Buffer
from commitlog.records.record import RecordHeader
from dledger.core.types import EntryId, HardState, Index, Term, TermRun
from dledger.core.value import value


class SyncTask(Protocol):
    """One piece of disk work that may run in a thread; raises OSError when the disk refuses."""

    def run(self) -> None:
        """Does the work and blocks until it is done; in any thread. Raises OSError."""


@value
class LogRange:
    """Whole records `first`..`last` as the bytes they are on disk.

    `position` is the address of the first byte, a leading blank included, so that two ranges in a
    row are contiguous. `parts` are read-only views, in order; `size` is their sum.
    Empty range: last == prev.index, size 0.
    """

    prev: EntryId
    prev_chain_crc: int
    last: Index
    runs: tuple[TermRun, ...]
    position: int
    size: int
    parts: tuple[memoryview, ...]


class Entry(NamedTuple):
    """One entry as read back: header and a view of (or bytes of) its body."""

    header: RecordHeader
    body: Buffer


@value
class WantedSpace:
    """The place of records `first` to `last`: addresses `begin` to `end` of the log at most."""

    begin: int
    end: int
    first: Index
    last: Index


class Space(Protocol):
    """Files and blocks for records that are not written yet."""

    def make(self, wanted: WantedSpace) -> None:
        """Make sure that `wanted` can be written, from the log's end on; cheap when it can.

        Raises OSError. ENOSPC is no failure of the store: nothing is written, and it stays usable.
        """
        ...

    def begin(self, wanted: WantedSpace) -> SyncTask | None:
        """Task that makes the first part that is lacking; None when all of it is there."""
        ...


class LogStore(Protocol):
    """The log of one replica. Indexes start at 0; an empty log has `last == anchor`."""

    @property
    def first_index(self) -> Index:
        """Lowest index that can be read; 0 until a prefix was deleted."""
        ...

    @property
    def first_position(self) -> int:
        """Where the first entry begins or will begin; known also while that one is damaged."""
        ...

    @property
    def anchor(self) -> EntryId:
        """The entry before the first: NO_ENTRY until a prefix was deleted."""
        ...

    @property
    def last(self) -> EntryId:
        """Term and index of the newest entry; `anchor` for an empty log."""

    @property
    def space(self) -> Space:
        """Asked before records get their indexes: those that have one must find space."""
        ...

    @property
    def flushed(self) -> Index:
        """Highest index known to be on disk, -1 for none."""
        ...

    @property
    def end_position(self) -> int:
        """Byte address just behind the last record (blanks after it not counted; R10)."""
        ...

    def term_runs(self) -> list[TermRun]:
        """The terms of the whole log as runs, oldest first; for the core's view at start."""
        ...

    def append(self, bodies: Sequence[Buffer], term: Term, *, stamp_at: int = -1) -> Sequence[int]:
        """Leader: write `bodies` as the next entries of `term`; return the position of each record.

        With `stamp_at` ≥ 0 the record's body address (position + 48) is written into each body
        there as a big-endian 8-byte integer before any checksum is taken (docs/spec/store.md 1.1,
        field 7).
        """
        ...

    @property
    def body_size_max(self) -> int:
        """The largest body that a file of this log can hold, in bytes."""
        ...

    def check_range(self, source: LogRange | ReceivedRange) -> VerifiedRange:
        """Check a range by itself, without a look at this log. Pure.

        Checks every header against its place, both checksums of every record, the chain from
        `prev_chain_crc`, the terms and the zero padding. Raises `RangeRejected` (the sender's fault
        or the wire's). Done before the core hears of the range: a bad peer harms nobody.
        """
        ...

    def append_range(self, source: LogRange | ReceivedRange | VerifiedRange, first: Index) -> None:
        """Follower: write the records from `first` on; `first` must be `last.index + 1`.

        A range that was not checked yet is checked first.

        Checks that the range continues *this* log: position (S10), and the checksum of our entry
        before it. Raises `StoreDamaged` when our entry has the same id but another checksum (R19),
        `RangeRejected` when it does not fit otherwise; nothing is written then.
        """
        ...

    def read_range(self, first: Index, last_max: Index, size_max: int) -> LogRange:
        """A verified range from `first` on: at most `size_max` bytes, but at least one record.

        Empty when `first > last_max`. Raises IndexError below `first_index` or above the end + 1.
        """
        ...

    def read_bytes(self, position: int, size: int) -> Buffer:
        """Bytes as they are, from any address of the log on; fewer where the log ends.

        **Not** verified: for readers elsewhere, who verify what they got.
        """
        ...

    def entry(self, index: Index) -> Entry:
        """One verified entry. Raises IndexError outside the log."""
        ...

    def entries(self, first: Index, last: Index) -> Iterator[Entry]:
        """Verified entries in order; views stay valid until the log is closed."""
        ...

    def bodies(self, first: Index, last: Index) -> Iterator[tuple[int, int, Buffer]]:
        """Index, term and body of the same entries, without a header object for each."""
        ...

    def position_of(self, index: Index) -> int:
        """Address of the record; of `last.index + 1`: `end_position`."""
        ...

    def index_at(self, position: int) -> Index:
        """Index of the record that begins exactly at `position`. Raises KeyError when none does."""
        ...

    def id_of(self, index: Index) -> EntryId:
        """Term and index, also of the entry before the first one. Raises IndexError."""

    def truncate_after(self, index: Index) -> None:
        """Removes all entries above `index`, durably; AssertionError below the commit (S3)."""

    def begin_sync(self) -> SyncTask | None:
        """None when everything written is already flushed."""
        ...

    def finish_sync(self, task: SyncTask) -> Index:
        """Ends a sync that has run; returns `flushed`, less if a truncation came meanwhile."""

    def mark_deadline(self) -> float | None:
        """When the durable flush mark should next be brought up to date (R1), None if it is.

        Seconds on the clock given at opening; the mark may lag the flushed end by 100 ms at most.
        """
        ...

    def begin_mark(self) -> SyncTask | None:
        """Task that writes and syncs the flush mark; ended by `finish_mark`."""
        ...

    def finish_mark(self, task: SyncTask) -> None:
        """Ends the task of `begin_mark`, which must have run; then the next may begin."""

    def begin_prepare(self) -> SyncTask | None:
        """Task that makes the next file ahead of its use; None when there is none to make now.

        Optional: an append that needs a file which nobody made makes it itself, and waits. There is
        nothing to finish; a task that raised is tried again by the append that needs the file.
        """
        ...

    def save_commit(self, committed: Index) -> None:
        """Keep the commit index as a hint (the `checkpoint` mirror); its loss is harmless."""
        ...

    def close(self) -> None:
        """Sync everything, bring mark and mirrors up to date, release files."""
        ...


class ReceivedRange(NamedTuple):
    """A range as it came from a peer; same meaning as `LogRange`, bytes in one or more parts."""

    prev: EntryId
    prev_chain_crc: int
    last: Index
    runs: tuple[TermRun, ...]
    position: int
    size: int
    parts: tuple[Buffer, ...]


@value
class VerifiedRange:
    """A checked range; only `LogStore.check_range` makes one.

    `data`: all of it in one view; `slots`: the index slot of each record; `tail_chain_crc`: the
    chain checksum of the last one; `end`: address behind it.
    """

    source: LogRange | ReceivedRange
    data: memoryview
    slots: list[bytes]
    tail_chain_crc: int
    end: int


class HardStateStore(Protocol):
    """Two slots, each with sequence number and checksum (D2)."""

    @property
    def state(self) -> HardState:
        """The state of the last finished save, or the one on disk at the start."""

    def begin_save(self, state: HardState) -> SyncTask:
        """Task that writes and syncs one slot, then the other (R7)."""
        ...

    def finish_save(self, task: SyncTask) -> None:
        """Makes the saved state the current one; AssertionError if the task has not run (D1)."""

    def close(self) -> None:
        """Closes the files; a save that is not finished does not count."""
