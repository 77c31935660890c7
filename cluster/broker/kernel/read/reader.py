"""Records of messages by their address in the log, verified, never beyond the applied entries."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.broker.kernel.read.verified_pieces import PIECE_SIZE, VerifiedPieces
from cluster.errors import NotFound
from commitlog.errors import StoreDamaged
from commitlog.records.message_fast import scan_record
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import NO_TERM, Index, Term
from dledger.log.port import Entry, LogStore

SPREAD_MAX = 32  # bytes that may be read for each byte wanted; else records are read one by one
SINGLE_MAX = 32  # records that one pull reads one by one
READ_SIZE_MAX = 2 << 20  # bytes verified for one pull, so that it does not hold the event loop

_SIZE_AND_PLACE = struct.Struct(">i24xq")  # docs/spec/store.md 1.1, fields 1 and 7


class Place(NamedTuple):
    """Where a stored message is; -1 and 0 when that is no longer known."""

    index: Index  # type: ignore[assignment]  # hides tuple.index
    term: Term
    queue_offset: int
    position: int


class RecordReader:
    """`position` is a message's own address (its physical offset): that of its entry + 48.

    `applied()`: index of the newest entry that may be read. `call_later` and `dropped`: see
    `VerifiedPieces`.
    """

    def __init__(
        self,
        store: LogStore,
        applied: Callable[[], Index],
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
        dropped: Callable[[], object] = int,
    ) -> None:
        self.store, self._applied = store, applied
        self.pieces = VerifiedPieces(store, applied, call_later, dropped)

    def record(self, position: int) -> bytes | memoryview:
        """The record of the message at `position`. Raises NotFound; StoreDamaged for damage."""
        return self._entry(position).body  # type: ignore[return-value]

    def records(self, wanted: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """The records at (position, size) pairs in ascending order, as a queue names them.

        Records that lie near each other come from pieces that are verified once and kept. Those
        before a damaged one are given, and those before much that was not verified yet, or lies far
        away; raises as `record` when the first is damaged, or is not what the pair says.
        """
        found: list[bytes | memoryview] = []
        with contextlib.suppress(StoreDamaged):
            found = self._in_pieces(wanted)
        if found:
            return found
        found = [self._of_size(*wanted[0])]
        with contextlib.suppress(StoreDamaged):
            for pair in wanted[1:SINGLE_MAX]:
                found.append(self._of_size(*pair))
        return found

    def _in_pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """The first ones, from verified pieces; none where they lie too far from each other.

        Ends before damage, and when it has read `READ_SIZE_MAX` bytes that were not verified yet.
        """
        found: list[bytes | memoryview] = []
        begin = end = read = 0
        data: bytes | memoryview = b""
        unpack = _SIZE_AND_PLACE.unpack_from
        for position, size in wanted:
            if not begin <= position < end:
                piece = self.pieces.find(position)
                if piece is None:
                    if read >= READ_SIZE_MAX:
                        break
                    near = _size_near(wanted, len(found))
                    if not near:
                        break
                    try:
                        piece = self.pieces.read(position, self._index, near)
                    except StoreDamaged:
                        break
                    read += piece.end - piece.begin
                begin, end, data = piece.begin, piece.end, piece.data
            at = position - begin
            stop = at + size
            if begin + stop > end:
                break
            own_size, own_position = unpack(data, at)
            if own_size != size or own_position != position:
                break
            found.append(data[at:stop])
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


def _size_near(wanted: Sequence[tuple[int, int]], number: int) -> int:
    """Bytes of the log from a wanted record to the last one in the same piece; 0: too few of them.

    A record that is alone is read by itself.
    """
    begin = wanted[number][0]
    end, size = begin, 0
    for position, record_size in wanted[number:]:
        if position + record_size > begin + PIECE_SIZE and size:
            break
        end, size = position + record_size, size + record_size + HEADER_SIZE
    span = end - begin + HEADER_SIZE
    return span if len(wanted) > 1 and span <= SPREAD_MAX * size else 0
