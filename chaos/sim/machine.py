"""The state machine of the simulated log: a list of values, and the producers that sent them.

    body    magic "S1" 2 | producer 2 | sequence 4 | stamp 8 | filler
            producer with the top bit set: sent once, its numbers are not checked
            stamp: the body's own address in the log, written by the storage (`stamp_at`)

Bodies that do not begin with the magic (a leader's no-op) are no values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.record import BLANK, HEADER_SIZE
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import DledgerError, OutcomeUnknown
from dledger.log.port import LogStore
from dledger.producers.table import ProducerTable

BODY = struct.Struct(">2sHIq")
BODY_SIZE = BODY.size
# size, index and position of an entry's header, then its body
_ENTRY = struct.Struct(">4xiq8xq16x2sHIq")
RANGE_BYTES_MAX = 1 << 20  # applied at once; what was appended between two commits is less
STAMP_AT = 8
MAGIC = b"S1"
assert _ENTRY.size == HEADER_SIZE + BODY_SIZE
#: Bit of the producer number: not idempotent.
ANONYMOUS = 0x8000
STREAM = "s"

#: Called with the error, or None when the awaited index is applied.
Waiter = Callable[[DledgerError | None], None]


class Value(NamedTuple):
    """One value of the log: its producer, and that one's own number of it, from 0."""

    producer: int
    sequence: int


def make_body(producer: int, sequence: int, size: int) -> bytes:
    """A body of at least 16 bytes; the stamp is left for the storage."""
    filler = size - BODY_SIZE
    head = BODY.pack(MAGIC, producer, sequence, 0)
    return head + bytes([1 + producer % 255]) * filler if filler > 0 else head


def value_name(producer: int, sequence: int) -> str:
    """The name of a value in histories, as in p3-17."""
    return f"p{producer}-{sequence}"


def noop_body(term: Term) -> bytes:
    """Opens a leadership; the stamp is at 8, as in every body here."""
    return struct.pack(">2sHIq", b"NO", 0, term & 0xFFFFFFFF, 0)


class Machine:
    """`StateMachine` of one node. It may outlive a process, as a state that was saved does.

    Attributes:
        values: (index, value) of everything applied, in order of index.
        producers: shipping table of who sent what (R8, R9).
        whole: False while an apply is under way, and for good when it was cut short.
        repaired: the replica repairs its log; an entry unreadable now can be read later.
    """

    repaired = False

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.values: list[tuple[int, str]] = []
        self.producers = ProducerTable()
        self.applied = Index(-1)
        self.leading = False
        self.whole = True
        self._waiters: list[tuple[int, Waiter]] = []

    def restart(self, store: LogStore) -> None:
        """A new process takes over the saved state; it holds applied entries only."""
        self._store = store
        self.leading = False
        self._waiters = []
        self.producers.drop_uncommitted()

    def apply(self, first: Index, last: Index) -> None:
        """Applies entries `first`, the next one, to `last`; then answers waiters up to there."""
        assert first == self.applied + 1, f"applied {self.applied}, then {first}"
        index = int(first)
        self.whole = False
        values, unpack = self.values, _ENTRY.unpack_from
        row: tuple[int, int, int] | None = None  # producer, first sequence, first index
        while index <= last:
            part = self._store.read_range(Index(index), last, RANGE_BYTES_MAX)
            data = part.parts[0] if len(part.parts) == 1 else b"".join(part.parts)
            at, end = 0, len(data)
            while at < end:
                if data[at]:  # a blank's magic is -1: the file ends here
                    at += BLANK.unpack_from(data, at)[1]
                    continue
                size, number, position, magic, producer, sequence, stamp = unpack(data, at)
                at += size
                assert number == index
                assert stamp == position + HEADER_SIZE, "the body is stamped with its address"
                if row is not None and (producer, sequence - row[1]) != (row[0], index - row[2]):
                    self._fold(row, index)
                    row = None
                if magic == MAGIC:
                    values.append((index, f"p{producer}-{sequence}"))
                    if row is None and not producer & ANONYMOUS:
                        row = producer, sequence, index
                index += 1
        if row is not None:
            self._fold(row, index)
        assert index == last + 1
        self.applied = last
        self.whole = True
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for awaited, waiter in waiters:
                if awaited <= last:
                    waiter(None)
                else:
                    self._waiters.append((awaited, waiter))

    def _fold(self, row: tuple[int, int, int], behind: int) -> None:
        """One producer's values in a row, up to the index before `behind`."""
        producer, sequence, index = row
        self.producers.committed(
            str(producer), STREAM, sequence, Index(index), time_ms=index, count=behind - index
        )

    def places(
        self, producer: int, numbers: Sequence[int], error: DledgerError | None
    ) -> list[int]:
        """Indexes of applied values, newest first in the search; [] beside an error."""
        if error is not None or not numbers:
            return []
        wanted = {value_name(producer, number): number for number in numbers}
        found: dict[int, int] = {}
        for index, value in reversed(self.values):
            if value in wanted:
                found[wanted[value]] = index
                if len(found) == len(wanted):
                    break
        return [found.get(number, -1) for number in numbers]

    def wait(self, index: int, waiter: Waiter) -> None:
        """Answer when `index` is applied, or with an error when this leadership ends before."""
        if index <= self.applied:
            waiter(None)
        else:
            self._waiters.append((index, waiter))

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Begins or ends a leadership; without one, all waiters are told OutcomeUnknown."""
        if role is Role.LEADER:
            if not self.leading:
                self._begin_leading()
            return
        if self.leading:
            self.leading = False
            self.producers.drop_uncommitted()
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            waiter(OutcomeUnknown("the leadership ended before the original was committed"))

    def look_again(self, role: Role) -> None:
        """Called when a client waits for this node: becomes the serving leader if the replica
        leads."""
        if role is Role.LEADER and not self.leading:
            self._begin_leading()

    def _begin_leading(self) -> None:
        """R9: the table = applied state + fold over (applied, last].

        A node that cannot read it does not serve: it hands over, or repairs it and looks again.
        """
        self.leading = True
        try:
            self._fold_appended()
        except StoreDamaged:
            if not self.repaired:
                raise
            self.leading = False
            self.producers.drop_uncommitted()

    def _fold_appended(self) -> None:
        self.producers.drop_uncommitted()
        first, last = Index(self.applied + 1), self._store.last.index
        if first > last:
            return
        for header, body in self._store.entries(first, last):
            found = _parse(body, header.position + HEADER_SIZE)
            if found is not None and not found.producer & ANONYMOUS:
                index = Index(header.sequence)
                self.producers.appended(str(found.producer), STREAM, found.sequence, 1, index)


def _parse(body: Buffer, address: int) -> Value | None:
    """Producer and sequence, None for a body that is no value."""
    magic, producer, sequence, stamp = BODY.unpack_from(body)
    assert stamp == address, f"the body at {address} is stamped {stamp}"
    return Value(producer, sequence) if magic == MAGIC else None
