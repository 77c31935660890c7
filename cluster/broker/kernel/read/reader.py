"""Records of messages by their address in the log, verified, never above what is applied."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.errors import NotFound
from commitlog.errors import StoreDamaged
from commitlog.records.message_fast import scan_record
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import NO_TERM, Index, Term
from dledger.log.port import Entry, LogStore

SPREAD_MAX = 4  # bytes that may be read for each byte wanted; else records are read one by one

_SIZE_AND_PLACE = struct.Struct(">i24xq")  # docs/spec/store.md 1.1, fields 1 and 7


class Place(NamedTuple):
    """Where a stored message is; -1 and 0 when that is no longer known."""

    index: Index  # type: ignore[assignment]  # hides tuple.index
    term: Term
    queue_offset: int
    position: int


class RecordReader:
    """`position` is a message's own address (its physical offset): that of its entry + 48.

    `applied()`: index of the newest entry that may be read.
    """

    def __init__(self, store: LogStore, applied: Callable[[], Index]) -> None:
        self.store, self._applied = store, applied

    def record(self, position: int) -> bytes | memoryview:
        """The record of the message at `position`. Raises NotFound; StoreDamaged for damage."""
        return self._entry(position).body  # type: ignore[return-value]

    def records(self, wanted: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """The records at (position, size) pairs in ascending order, as a queue names them.

        Records that lie near each other are read as one verified range. Those before a damaged
        one are given; raises as `record` when the first is damaged, or is not what the pair says.
        """
        first, last = wanted[0][0], wanted[-1][0] + wanted[-1][1]
        size = sum(pair[1] for pair in wanted) + HEADER_SIZE * len(wanted)
        if len(wanted) > 1 and last - first <= SPREAD_MAX * size:
            try:
                found = self._range(wanted, last - first + HEADER_SIZE)
            except StoreDamaged:
                found = []
            if found:
                return found
        found = [self._of_size(*wanted[0])]
        with contextlib.suppress(StoreDamaged):
            for pair in wanted[1:]:
                found.append(self._of_size(*pair))
        return found

    def _range(self, wanted: Sequence[tuple[int, int]], size_max: int) -> list[bytes | memoryview]:
        """All of them from one read; none when they do not lie in one."""
        start, index = self._index(wanted[0][0]), self._index(wanted[-1][0])
        part = self.store.read_range(start, index, size_max)
        if part.last != index:
            return []
        data = part.parts[0] if len(part.parts) == 1 else memoryview(b"".join(part.parts))
        found: list[bytes | memoryview] = []
        for position, size in wanted:
            at = position - part.position
            if _SIZE_AND_PLACE.unpack_from(data, at) != (size, position):
                raise StoreDamaged("the queue names no record here", position=position)
            found.append(data[at : at + size])
        return found

    def _of_size(self, position: int, size: int) -> bytes | memoryview:
        record = self.record(position)
        if len(record) != size:
            raise StoreDamaged("the queue names another size", position=position)
        return record

    def place(self, index: Index) -> Place:
        """Where the message of an applied entry is. An index of -1 means: no longer known."""
        if index < 0:
            return Place(index, NO_TERM, -1, 0)
        header, body = self.store.entry(index)
        offset = scan_record(body).queue_offset
        return Place(index, Term(header.epoch), offset, header.position + HEADER_SIZE)

    def store_time(self, position: int) -> int:
        """Store timestamp of the message at `position`, in ms."""
        return scan_record(self.record(position)).store_timestamp_ms

    def _index(self, position: int) -> Index:
        try:
            index = self.store.index_at(position - HEADER_SIZE)
        except KeyError:
            raise NotFound(f"no message begins at position {position}") from None
        if index > self._applied():
            raise NotFound(f"the message at position {position} is not committed yet")
        return index

    def _entry(self, position: int) -> Entry:
        entry = self.store.entry(self._index(position))
        if scan_record(entry.body).physical_offset != position:
            raise StoreDamaged("the record says another address than it has", position=position)
        return entry
