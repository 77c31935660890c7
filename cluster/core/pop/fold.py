"""Folds the records of pops in the log: held messages, and each group's offset.

    record of the revive log ─► HeldTable · OrderTable · the group's offset
    record with an origin    ─► a message stored again for a retry: done with at its checkpoint

An offset moves only from where the taker saw it ("fr") to "nx": when an administrator has moved it
meanwhile, his word counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.core.internal_topics import OffsetsCommitted
from cluster.core.offsets import OffsetTable
from cluster.core.pop.held import HeldTable
from cluster.core.pop.ordered import OrderTable
from cluster.core.pop.records import (
    NOT_KNOWN,
    STAYS,
    Acked,
    OrderAcked,
    OrderHidden,
    OrderTaken,
    Place,
    PopRecord,
    Taken,
    decode_record,
)
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.properties import find_property
from commitlog.records.property_names import POP_CHECKPOINT_OFFSET

_OFFSET = POP_CHECKPOINT_OFFSET.encode()


class PopFold:
    """A `DeferredFold` without topics of its own: `replay` gets its records with their body."""

    topics: frozenset[bytes] = frozenset()

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets
        self.held = HeldTable()
        self.ordered = OrderTable()
        self.changes = 0

    def replay(self, record: ScannedRecord, body: bytes) -> None:
        """A committed record of the revive log."""
        found = decode_record(find_property(record.properties, b"TAGS") or b"", body)
        if found is not None:
            self.changes += 1
            self._replay(found, record.physical_offset)

    def _replay(self, record: PopRecord, address: int) -> None:
        match record:
            case Taken():
                self.held.replay_taken(address, record)
                self._move(record.place, record.logged_from, record.next_offset)
            case Acked():
                self.held.replay_done(record.address, record.offsets)
            case OrderTaken():
                self.ordered.replay_taken(record)
                self._move(record.place, record.logged_from, record.next_offset)
            case OrderAcked():
                following = self.ordered.replay_acked(record)
                if following is not None:
                    self._move(record.place, *following)
            case OrderHidden():
                self.ordered.replay_hidden(record)

    def _move(self, place: Place, logged_from: int, next_offset: int) -> None:
        if next_offset == STAYS:
            return
        now = self._offsets.get(place.group, place.topic, place.queue)
        if now is not None and (logged_from == NOT_KNOWN or not logged_from <= now < next_offset):
            return
        offsets = {place.topic: {place.queue: next_offset}}
        self._offsets.replay(OffsetsCommitted(place.group, offsets))

    def replay_deferred(self, record: ScannedRecord, origin: int) -> None:
        """No record waits here by its topic alone."""

    def replay_settled(self, origin: int, record: ScannedRecord) -> None:
        """A message of the checkpoint at `origin` was stored again."""
        if self.held.get(origin) is None:
            return
        offset = find_property(record.properties, _OFFSET)
        if offset is not None and offset.isdigit():
            self.held.replay_done(origin, (int(offset),))
            self.changes += 1

    def replay_deletion(self, group: str) -> None:
        """Forget the group's held messages and ordered rows; its offsets are another table's."""
        self.held.replay_deletion(group)
        self.ordered.replay_deletion(group)

    def first_waiting(self) -> int | None:
        """Always None: the held messages are in the table, and expire like those of any queue."""
        return None

    def to_checkpoint(self) -> dict[str, Any]:
        """JSON, for `restore`."""
        return {"held": self.held.to_checkpoint(), "ordered": self.ordered.to_checkpoint()}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Raises ValueError, KeyError or TypeError."""
        self.held.restore(value["held"])
        self.ordered.restore(value["ordered"])
