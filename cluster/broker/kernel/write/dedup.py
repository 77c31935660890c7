"""A producer's numbers in its messages' properties (R8).

    __PID ⟨producer id⟩   __SEQ ⟨0, 1, 2, … per producer and queue⟩

Usual sends carry exactly the next number of their producer and queue: a `Cursor` knows those bytes
and compares them, and tells the table once per batch. Everything else asks the table. Repeats are
seen to by repeats.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.broker.kernel.write.batch import Batch, Cursor
from cluster.errors import InvalidRequest
from commitlog.records.producer_numbers import NAME_SIZE, PRODUCER, find_numbers
from commitlog.records.properties import PROPERTIES_SIZE_MAX
from dledger.producers.table import ProducerTable

PRODUCER_ID_SIZE_MAX = 64  # one table row per id; ours have 22 characters
CURSORS_MAX = 100_000  # (producer, queue) pairs of one leadership that have a cursor

NO_MESSAGE = bytes(PROPERTIES_SIZE_MAX + 1)  # longer than any properties, so none begin with it


def read_numbers(properties: bytes) -> tuple[str, int]:
    """Producer id and sequence of a message that has a `__PID`, as every replica will read them.

    `properties`: as they are stored. The table of producers takes the first `__PID` that it finds,
    so that must be a property's whole name.

    Raises InvalidRequest for an id or a number that cannot be one.
    """
    at = properties.find(PRODUCER)
    found = find_numbers(properties, at, len(properties)) if at >= 0 else None
    if found is None or (at and properties[at - 1] != 2):
        raise InvalidRequest(
            "__PID is not followed by a __SEQ that counts, or another property's name ends in it; "
            "send both, __SEQ as a whole number that counts from 0 in each queue"
        )
    stop, number_at, number_end = found
    producer = properties[at + NAME_SIZE : stop]
    if not 0 < len(producer) <= PRODUCER_ID_SIZE_MAX or not producer.isascii():
        raise InvalidRequest(
            f"__PID has {len(producer)} bytes; it must have 1 to {PRODUCER_ID_SIZE_MAX} ASCII ones"
        )
    return producer.decode(), int(properties[number_at:number_end])


#: Stands where no producer is known: its bytes begin no message.
NOBODY = Cursor("", "", 0)
NOBODY.wanted = NO_MESSAGE


class Cursors:
    """Cursors of one leadership. Only one per pair is alive, so none is ever behind the table."""

    def __init__(self, table: ProducerTable) -> None:
        self._table = table
        self._found: dict[tuple[str, str], Cursor] = {}
        table.forgot = self._forgotten

    def cursor(self, producer: str, stream: str) -> Cursor:
        """The cursor of a pair; its pending numbers must be in the table already (`write_back`)."""
        key = (producer, stream)
        found = self._found.get(key)
        following = self._table.next_sequence(producer, stream)
        if found is None:
            if len(self._found) >= CURSORS_MAX:
                self.drop()
            found = self._found[key] = Cursor(producer, stream, following)
        elif found.next != following:  # the table knows better
            found.next, found.wanted = following, NO_MESSAGE
        return found

    def write_back(self, batch: Batch) -> None:
        """Add the numbers that cursors took in this batch to the table."""
        cursors, batch.cursors = batch.cursors, []
        for cursor in cursors:
            addition = self._table.appended(*cursor.note())
            assert addition is not None, "a cursor in a batch has taken numbers there"
            batch.additions.append(addition)

    def take_back(self, batch: Batch) -> None:
        """Undo the numbers of a refused batch, and no others; no later batch has begun.

        Their cursors are dead and made anew; those of other producers and queues go on.
        """
        assert not batch.cursors, "what was taken is in the table"
        for addition in reversed(batch.additions):
            self._table.take_back(addition)
            cursor = self._found.pop(addition.key, None)
            if cursor is not None:
                cursor.wanted = NO_MESSAGE
        batch.additions.clear()

    def _forgotten(self, producer: str, streams: Iterable[str]) -> None:
        """The table has forgotten the producer: its next message takes the slow path. Numbers that
        it took in the open batch are still added.
        """
        for stream in streams:
            cursor = self._found.pop((producer, stream), None)
            if cursor is not None:
                cursor.wanted = NO_MESSAGE

    def drop(self) -> None:
        """Leadership ended: every cursor is dead and made anew."""
        for cursor in self._found.values():
            cursor.wanted = NO_MESSAGE
        self._found.clear()
