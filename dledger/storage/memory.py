"""The obvious `LogStore` and `HardStateStore`, without a disk: the reference for all others.

Every record is one bytes object. Durability is a number: `crash` forgets what no sync covered. The
bytes, positions and checksums are the same as `FileLog` makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from commitlog.errors import StoreDamaged
from commitlog.files import Buffer
from commitlog.record import (
    BLANK,
    BLANK_SIZE,
    HEADER,
    HEADER_SIZE,
    MAGIC_BLANK,
    RecordHeader,
    chain,
    room,
    unpack_header,
)
from dledger.core.types import NO_ENTRY, NO_INDEX, EntryId, HardState, Index, Term, TermRun
from dledger.errors import EntryTooLarge, LogUsageError, RangeRejected
from dledger.storage.check import Tail, check_records, one_view
from dledger.storage.options import DATA_FILE_SIZE
from dledger.storage.port import Entry, LogRange, ReceivedRange, SyncTask


@dataclass(frozen=True, slots=True)
class _Record:
    """Bytes of one record and of the blank before it."""

    blank: bytes
    data: bytes

    @property
    def header(self) -> RecordHeader:
        return unpack_header(self.data)

    @property
    def end(self) -> int:
        return self.header.position + len(self.data)


@dataclass(slots=True)
class MemoryTask:
    """A sync that costs nothing. `index`: what it covers."""

    index: Index
    done: bool = False

    def run(self) -> None:
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
        return Index(0)

    @property
    def last(self) -> EntryId:
        return self.id_of(Index(len(self._records) - 1))

    @property
    def flushed(self) -> Index:
        return self._flushed

    @property
    def end_position(self) -> int:
        return self._records[-1].end if self._records else 0

    def term_runs(self) -> list[TermRun]:
        runs: list[TermRun] = []
        for record in self._records:
            header = record.header
            run = TermRun(Term(header.epoch), Index(header.sequence))
            if runs and runs[-1].term == run.term:
                runs.pop()
            runs.append(run)
        return runs

    def append(self, bodies: Sequence[Buffer], term: Term, *, stamp_at: int = -1) -> Sequence[int]:
        assert term >= self.last.term, "terms never go back"
        size_max = self._file_size - HEADER_SIZE - BLANK_SIZE
        for body in bodies:
            if len(body) > size_max:
                raise EntryTooLarge(f"an entry has {len(body)} bytes and may have {size_max}")
            if stamp_at >= 0 and len(body) < stamp_at + 8:
                raise LogUsageError(f"no room for a position at byte {stamp_at}")
        first = len(self._records)
        for body in bodies:
            self._records.append(self._make(bytearray(body), term, stamp_at))
        return [record.header.position for record in self._records[first:]]

    def _make(self, body: bytearray, term: Term, stamp_at: int) -> _Record:
        size, position, blank = HEADER_SIZE + len(body), self.end_position, b""
        left = self._file_size - position % self._file_size
        if not room(size, left):
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

    def append_range(self, source: LogRange | ReceivedRange, first: Index) -> None:
        if first != len(self._records):
            raise RangeRejected(f"entry {first} does not follow {len(self._records) - 1}")
        prev = source.prev
        if prev.index >= len(self._records) or self.id_of(prev.index) != prev:
            raise RangeRejected(f"entry {prev} is not here")
        if self._chain_crc(prev.index) != source.prev_chain_crc:
            raise StoreDamaged(f"entry {prev} has another chain checksum at the sender")
        before = Tail(prev, source.prev_chain_crc, self.position_of(Index(prev.index + 1)))
        if prev.index + 1 < len(self._records):
            before = before._replace(end=self._records[prev.index].end if prev.index >= 0 else 0)
        data = one_view(source.parts) if source.parts else memoryview(b"")
        checked = check_records(data, before, self._file_size, 0)
        if (
            checked.reason
            or (source.size and source.position != before.end)
            or len(data) != source.size
            or checked.tail.id.index != source.last
            or tuple(checked.runs) != tuple(source.runs)
        ):
            raise RangeRejected(checked.reason or "the range is not what it claims to be")
        at = 0
        new: list[_Record] = []
        while at < len(data):
            blank = b""
            if data[at] == 0xFF:
                size = BLANK.unpack_from(data, at)[1]
                blank, at = bytes(data[at : at + size]), at + size
            header = unpack_header(data, at)
            record = _Record(blank, bytes(data[at : at + header.size]))
            at += header.size
            if header.sequence < first:
                mine = self._records[header.sequence]
                if (mine.header.epoch, mine.end) != (header.epoch, record.end):
                    raise RangeRejected(f"entry {header.sequence} is another one here")
                if mine.header.chain_crc != header.chain_crc:
                    raise StoreDamaged(f"entry {header.sequence} differs from the sender's")
                continue
            new.append(record)
        self._records += new

    def read_range(self, first: Index, last_max: Index, size_max: int) -> LogRange:
        if not 0 <= first <= len(self._records):
            raise IndexError(f"entry {first} is not in the log")
        prev = self.id_of(Index(first - 1))
        position = self._records[first - 1].end if first else 0
        parts: list[bytes] = []
        size, last = 0, first - 1
        for record in self._records[first : last_max + 1]:
            more = len(record.blank) + len(record.data)
            if parts and size + more > size_max:
                break
            parts += [record.blank, record.data]
            size, last = size + more, last + 1
        data = b"".join(parts)
        runs: list[TermRun] = []
        for run in self.term_runs():
            if run.last >= first and (not runs or runs[-1].last < last) and last >= first:
                runs.append(TermRun(run.term, Index(min(run.last, last))))
        views = (memoryview(data),) if data else ()
        return LogRange(
            prev, self._chain_crc(first - 1), Index(last), tuple(runs), position, size, views
        )

    def entry(self, index: Index) -> Entry:
        record = self._records[self._inside(index)]
        return Entry(record.header, memoryview(record.data)[HEADER_SIZE:])

    def entries(self, first: Index, last: Index) -> Iterator[Entry]:
        for index in range(first, last + 1):
            yield self.entry(Index(index))

    def position_of(self, index: Index) -> int:
        if index == len(self._records):
            return self.end_position
        return self._records[self._inside(index)].header.position

    def index_at(self, position: int) -> Index:
        for index, record in enumerate(self._records):
            if record.header.position == position:
                return Index(index)
        raise KeyError(f"no record begins at position {position}")

    def id_of(self, index: Index) -> EntryId:
        if index == NO_INDEX:
            return NO_ENTRY
        return EntryId(Term(self._records[self._inside(index)].header.epoch), index)

    def _inside(self, index: int) -> int:
        if not 0 <= index < len(self._records):
            raise IndexError(f"entry {index} is not in the log")
        return index

    def truncate_after(self, index: Index) -> None:
        assert self.committed <= index < len(self._records), "never below commit (S3)"
        if index + 1 == len(self._records):
            return
        del self._records[index + 1 :]
        self._flushed = min(self._flushed, index)
        if self._task is not None:
            self._task.index = min(self._task.index, index)

    def begin_sync(self) -> MemoryTask | None:
        assert self._task is None, "one sync at a time"
        if self._flushed == len(self._records) - 1:
            return None
        self._task = MemoryTask(Index(len(self._records) - 1))
        return self._task

    def finish_sync(self, task: SyncTask) -> Index:
        assert task is self._task, "not the sync that is under way"
        assert self._task is not None
        assert self._task.done, "the sync did not run to its end"
        self._flushed, self._task = max(self._flushed, self._task.index), None
        return self._flushed

    def mark_deadline(self) -> float | None:
        return None

    def begin_mark(self) -> MemoryTask | None:
        return None

    def finish_mark(self, task: SyncTask) -> None:
        raise AssertionError("no mark is ever under way")

    def save_commit(self, committed: Index) -> None:
        assert committed < len(self._records), "commit never exceeds the log's end (W5)"
        self.committed = max(self.committed, committed)

    def crash(self) -> None:
        """Lose what no finished sync covered, and start anew with the rest."""
        self._task = None
        del self._records[self._flushed + 1 :]

    def close(self) -> None:
        self._flushed = Index(len(self._records) - 1)


class _Save:
    def __init__(self, state: HardState) -> None:
        self.state, self.done = state, False

    def run(self) -> None:
        self.done = True


class MemoryHardState:
    """`HardStateStore` in a field."""

    def __init__(self, state: HardState) -> None:
        self._state = replace(state)
        self._task: _Save | None = None

    @property
    def state(self) -> HardState:
        return self._state

    def begin_save(self, state: HardState) -> _Save:
        assert self._task is None, "one save at a time"
        assert state.term >= self._state.term, "a term never goes back (D1)"
        self._task = _Save(state)
        return self._task

    def finish_save(self, task: SyncTask) -> None:
        assert task is self._task, "not the save that is under way"
        assert self._task is not None
        assert self._task.done, "the save did not run to its end"
        self._state, self._task = self._task.state, None

    def close(self) -> None:
        self._task = None
