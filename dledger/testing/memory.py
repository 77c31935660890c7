"""The obvious `LogStore` and `HardStateStore`, without a disk: the reference for all others.

Every record is one bytes object. Durability is a number: `crash` forgets what no sync covered. The
bytes, positions and checksums are the same as `FileLog` makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.checksum import crc32
from commitlog.records.record import (
    BLANK,
    BLANK_SIZE,
    HEADER,
    HEADER_SIZE,
    MAGIC_BLANK,
    RecordHeader,
    chain,
    record_fits,
    unpack_header,
)
from dledger.core.types import NO_ENTRY, NO_INDEX, EntryId, HardState, Index, Term, TermRun
from dledger.errors import EntryTooLarge, LogUsageError, RangeRejected
from dledger.log.check import verify_range
from dledger.log.options import DATA_FILE_SIZE
from dledger.log.port import (
    Entry,
    LogRange,
    ReceivedRange,
    SyncTask,
    VerifiedRange,
    WantedSpace,
)


class _Record:
    """Bytes of one record and of the blank before it; its header, unpacked once."""

    __slots__ = ("blank", "data", "header")

    def __init__(self, blank: bytes, data: bytes) -> None:
        self.blank, self.data = blank, data
        self.header: RecordHeader = unpack_header(data)

    @property
    def end(self) -> int:
        return self.header.position + len(self.data)


@dataclass(slots=True)
class MemoryTask:
    """A sync without work. `index`: the last entry that it covers."""

    index: Index
    done: bool = False

    def run(self) -> None:
        """Marks the task as run: memory has no disk to wait for."""
        self.done = True


class MemoryLog:
    """`LogStore` in a list."""

    def __init__(self, *, file_size: int = DATA_FILE_SIZE) -> None:
        self._file_size = file_size
        self._records: list[_Record] = []
        self._flushed = NO_INDEX
        self._task: MemoryTask | None = None
        self.committed = NO_INDEX

    @property
    def first_index(self) -> Index:
        """Always 0: the reference deletes no prefix."""
        return Index(0)

    @property
    def first_position(self) -> int:
        """Always 0: the reference deletes no prefix."""
        return 0

    @property
    def anchor(self) -> EntryId:
        """Always NO_ENTRY: no entry stands before the first one."""
        return NO_ENTRY

    @property
    def last(self) -> EntryId:
        """As `LogStore.last`."""
        return self.id_of(Index(len(self._records) - 1))

    @property
    def flushed(self) -> Index:
        """Highest index that a finished sync has covered; NO_INDEX for none."""
        return self._flushed

    @property
    def end_position(self) -> int:
        """As `LogStore.end_position`: behind the last record, without a blank."""
        return self._records[-1].end if self._records else 0

    def term_runs(self) -> list[TermRun]:
        """As `LogStore.term_runs`, counted from the records each time."""
        return _runs_of(self._records)

    def append(self, bodies: Sequence[Buffer], term: Term, *, stamp_at: int = -1) -> Sequence[int]:
        """As `LogStore.append`. Raises EntryTooLarge, LogUsageError; then no body is appended."""
        assert term >= self.last.term, "terms never go back"
        for body in bodies:
            if len(body) > self.body_size_max:
                raise EntryTooLarge(f"{len(body)} bytes are over {self.body_size_max}")
            if stamp_at >= 0 and len(body) < stamp_at + 8:
                raise LogUsageError(f"no space for a position at byte {stamp_at}")
        first = len(self._records)
        for body in bodies:
            self._records.append(self._make(bytearray(body), term, stamp_at))
        return [record.header.position for record in self._records[first:]]

    def _make(self, body: bytearray, term: Term, stamp_at: int) -> _Record:
        size, position, blank = HEADER_SIZE + len(body), self.end_position, b""
        left = self._file_size - position % self._file_size
        if not record_fits(size, left):
            blank = BLANK.pack(MAGIC_BLANK, left).ljust(left, b"\0")
            position += left
        if stamp_at >= 0:
            body[stamp_at : stamp_at + 8] = (position + HEADER_SIZE).to_bytes(8, "big")
        index, body_crc = len(self._records), crc32(body)
        head = HEADER.pack(1, size, index, term, position, 0, 0, 0, 0)[:36]
        chain_crc = chain(self._chain_crc(index - 1), head, body_crc)
        header = HEADER.pack(1, size, index, term, position, 0, chain_crc, body_crc, len(body))
        return _Record(blank, header + body)

    def _chain_crc(self, index: int) -> int:
        return self._records[index].header.chain_crc if index >= 0 else 0

    @property
    def body_size_max(self) -> int:
        """Bytes of a file less one header and one blank."""
        return self._file_size - HEADER_SIZE - BLANK_SIZE

    def check_range(self, source: LogRange | ReceivedRange) -> VerifiedRange:
        """As `LogStore.check_range`, by the same function as the log in files."""
        return verify_range(source, self._file_size, 0)

    def append_range(self, source: LogRange | ReceivedRange | VerifiedRange, first: Index) -> None:
        """As `LogStore.append_range`: skips entries that are here already."""
        if not isinstance(source, VerifiedRange):
            source = self.check_range(source)
        claim = source.source
        prev = claim.prev
        if first != len(self._records):
            raise RangeRejected(f"entry {first} does not follow {len(self._records) - 1}")
        if prev.index >= len(self._records) or self.id_of(prev.index) != prev:
            raise RangeRejected(f"entry {prev} is not here")
        if self._chain_crc(prev.index) != claim.prev_chain_crc:
            raise StoreDamaged(f"entry {prev} has another chain checksum at the sender")
        if claim.size and claim.position != self._end_of(prev.index):
            raise RangeRejected(f"the range does not begin at {self._end_of(prev.index)}")
        new: list[_Record] = []
        for record in _records_in(source.data):
            theirs = record.header
            if theirs.sequence >= first:
                new.append(record)
                continue
            mine = self._records[theirs.sequence].header
            if (mine.epoch, mine.position, mine.size) != (
                theirs.epoch,
                theirs.position,
                theirs.size,
            ):
                raise RangeRejected(f"entry {theirs.sequence} is another one here")
            if mine.chain_crc != theirs.chain_crc:
                raise StoreDamaged(f"entry {theirs.sequence} differs from the sender's")
        self._records += new

    def _end_of(self, index: int) -> int:
        return self._records[index].end if index >= 0 else 0

    def read_range(self, first: Index, last_max: Index, size_max: int) -> LogRange:
        """As `LogStore.read_range`."""
        if not 0 <= first <= len(self._records):
            raise IndexError(f"entry {first} is not in the log")
        prev = self.id_of(Index(first - 1))
        position = self._end_of(first - 1)
        parts: list[bytes] = []
        size, last = 0, first - 1
        for record in self._records[first : last_max + 1]:
            more = len(record.blank) + len(record.data)
            if parts and size + more > size_max:
                break
            parts += [record.blank, record.data]
            size, last = size + more, last + 1
        data = b"".join(parts)
        runs = _runs_of(self._records[first : last + 1])
        views = (memoryview(data),) if data else ()
        return LogRange(
            prev, self._chain_crc(first - 1), Index(last), tuple(runs), position, size, views
        )

    def read_bytes(self, position: int, size: int) -> bytes:
        """As `LogStore.read_bytes`; joins all records first. Raises IndexError outside the log."""
        if not 0 <= position <= self.end_position:
            raise IndexError(f"position {position} is not in the log")
        data = b"".join(record.blank + record.data for record in self._records)
        return data[position : position + size]

    def entry(self, index: Index) -> Entry:
        """As `LogStore.entry`."""
        record = self._records[self._inside(index)]
        return Entry(record.header, memoryview(record.data)[HEADER_SIZE:])

    def entries(self, first: Index, last: Index) -> Iterator[Entry]:
        """Yields entries `first` to `last`, both included. Raises IndexError outside the log."""
        for index in range(first, last + 1):
            yield self.entry(Index(index))

    def bodies(self, first: Index, last: Index) -> Iterator[tuple[int, int, Buffer]]:
        """As `LogStore.bodies`."""
        for header, body in self.entries(first, last):
            yield header.sequence, header.epoch, body

    def position_of(self, index: Index) -> int:
        """As `LogStore.position_of`. Raises IndexError outside the log."""
        if index == len(self._records):
            return self.end_position
        return self._records[self._inside(index)].header.position

    def index_at(self, position: int) -> Index:
        """As `LogStore.index_at`, by looking at every record."""
        for index, record in enumerate(self._records):
            if record.header.position == position:
                return Index(index)
        raise KeyError(f"no record begins at position {position}")

    def id_of(self, index: Index) -> EntryId:
        """As `LogStore.id_of`; NO_ENTRY for NO_INDEX."""
        if index == NO_INDEX:
            return NO_ENTRY
        return EntryId(Term(self._records[self._inside(index)].header.epoch), index)

    def _inside(self, index: int) -> int:
        if not 0 <= index < len(self._records):
            raise IndexError(f"entry {index} is not in the log")
        return index

    def truncate_after(self, index: Index) -> None:
        """As `LogStore.truncate_after`; a sync under way covers less then."""
        assert self.committed <= index < len(self._records), "never below commit (S3)"
        if index + 1 == len(self._records):
            return
        del self._records[index + 1 :]
        self._flushed = min(self._flushed, index)
        if self._task is not None:
            self._task.index = min(self._task.index, index)

    def begin_sync(self) -> MemoryTask | None:
        """Returns a task for all entries that are here now; None if all are flushed."""
        assert self._task is None, "one sync at a time"
        if self._flushed == len(self._records) - 1:
            return None
        self._task = MemoryTask(Index(len(self._records) - 1))
        return self._task

    def finish_sync(self, task: SyncTask) -> Index:
        """Ends the sync; entries that came after `begin_sync` are not flushed."""
        assert task is self._task, "not the sync that is under way"
        assert self._task is not None
        assert self._task.done, "the sync did not run to its end"
        self._flushed, self._task = max(self._flushed, self._task.index), None
        return self._flushed

    def mark_deadline(self) -> float | None:
        """Always None: the reference keeps no flush mark."""
        return None

    def begin_mark(self) -> MemoryTask | None:
        """Always None: the reference keeps no flush mark."""
        return None

    def finish_mark(self, task: SyncTask) -> None:
        """Raises AssertionError, as `begin_mark` returns no task."""
        raise AssertionError("no mark is ever under way")

    @property
    def space(self) -> NoLimit:
        """Memory is not counted."""
        return NoLimit()

    def begin_prepare(self) -> None:
        """Always None: memory needs no file made ahead."""
        return None

    def save_commit(self, committed: Index) -> None:
        """As `LogStore.save_commit`; a lower index than the one kept has no effect."""
        assert committed < len(self._records), "commit never exceeds the log's end (W5)"
        self.committed = max(self.committed, committed)

    def crash(self) -> None:
        """Lose all entries that no finished sync covered, and start anew with the rest."""
        self._task = None
        del self._records[self._flushed + 1 :]

    def close(self) -> None:
        """Counts all entries as flushed, so that a `crash` after it loses none."""
        self._flushed = Index(len(self._records) - 1)


class NoLimit:
    """`Space` of a log in memory."""

    def make(self, wanted: WantedSpace) -> None:
        """There always is."""

    def begin(self, wanted: WantedSpace) -> None:
        """All of it is there."""


class _Save:
    def __init__(self, state: HardState) -> None:
        self.state, self.done = state, False

    def run(self) -> None:
        self.done = True


def _runs_of(records: Sequence[_Record]) -> list[TermRun]:
    """The terms of the records, each with the index of its last record among them."""
    runs: list[TermRun] = []
    for record in records:
        header = record.header
        run = TermRun(Term(header.epoch), Index(header.sequence))
        if runs and runs[-1].term == run.term:
            runs.pop()
        runs.append(run)
    return runs


def _records_in(data: memoryview) -> Iterator[_Record]:
    at, blank = 0, b""
    while at < len(data):
        magic, size = BLANK.unpack_from(data, at)
        piece = bytes(data[at : at + size])
        at += size
        if magic == MAGIC_BLANK:
            blank = piece
        else:
            yield _Record(blank, piece)
            blank = b""


class MemoryHardState:
    """`HardStateStore` in a field."""

    def __init__(self, state: HardState) -> None:
        self._state = replace(state)
        self._task: _Save | None = None

    @property
    def state(self) -> HardState:
        """The state of the last finished save, or the one given at the start."""
        return self._state

    def begin_save(self, state: HardState) -> _Save:
        """As `HardStateStore.begin_save`: one at a time, terms never fall (D1)."""
        assert self._task is None, "one save at a time"
        assert state.term >= self._state.term, "a term never goes back (D1)"
        self._task = _Save(state)
        return self._task

    def finish_save(self, task: SyncTask) -> None:
        """Makes the saved state the current one; AssertionError if the task has not run (D1)."""
        assert task is self._task, "not the save that is under way"
        assert self._task is not None
        assert self._task.done, "the save did not run to its end"
        self._state, self._task = self._task.state, None

    def close(self) -> None:
        """Drops a save under way: it does not count."""
        self._task = None
