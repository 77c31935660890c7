"""Records of messages by their address in the log, verified, never above what is applied."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.send_batch import Place
from cluster.errors import NotFound
from commitlog.errors import StoreDamaged
from commitlog.message_fast import scan_record
from commitlog.record import HEADER_SIZE
from dledger.core.types import NO_TERM, Index, Term
from dledger.storage.port import Entry, LogStore


class RecordReader:
    """`position` is a message's own address (its physical offset): that of its entry + 48.

    `applied()`: index of the newest entry that may be read.
    """

    def __init__(self, store: LogStore, applied: Callable[[], Index]) -> None:
        self.store, self._applied = store, applied

    def record(self, position: int) -> bytes | memoryview:
        """The record of the message at `position`. Raises NotFound; StoreDamaged for damage."""
        return self._entry(position).body  # type: ignore[return-value]

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

    def _entry(self, position: int) -> Entry:
        store = self.store
        try:
            index = store.index_at(position - HEADER_SIZE)
        except KeyError:
            raise NotFound(f"no message begins at position {position}") from None
        if index > self._applied():
            raise NotFound(f"the message at position {position} is not committed yet")
        entry = store.entry(index)
        if scan_record(entry.body).physical_offset != position:
            raise StoreDamaged("the record says another address than it has", position=position)
        return entry
