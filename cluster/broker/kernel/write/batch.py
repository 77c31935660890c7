"""The entries that one turn of the event loop adds to the log.

With the units that wait for them, and the producers' cursors that take numbers in them.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

from commitlog.files.system import Buffer
from commitlog.records.producer_numbers import PRODUCER, SEQUENCE
from dledger.core.types import NO_INDEX, Index, Term
from dledger.errors import DledgerError
from dledger.producers.runs import Addition


class Unit(Protocol):
    """Something that put bodies into a batch and wants to know how it ended.

    `outlives`: it may be told by a node that leads no more, so it can wait for the next leader;
    all others are told "unknown" when the leadership ends.
    """

    outlives: ClassVar[bool]

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Committed and applied when `error` is None; `batch` tells indexes and positions.

        A unit of `early` is told when a majority has written its bodies, as a rule.
        """
        ...


class Note(NamedTuple):
    """`number` numbers of a producer, from `sequence` on, stand within two indexes (R8)."""

    producer: str
    stream: str
    sequence: int
    number: int
    first_index: Index
    last_index: Index


class Batch:
    """Bodies of one turn. `positions[i]` and `first_index + i` belong to `bodies[i]`.

    `additions`: what its numbers added to the table of producers, oldest first.
    `early`: those of whom `early_count` bodies are, told when a majority has written them.
    `frees_space`: see `Proposal`.
    """

    __slots__ = ("additions", "bodies", "cursors", "early", "early_count", "first_index",
                 "frees_space", "positions", "size", "stamp_ms", "term", "units")  # fmt: skip

    def __init__(self, first_index: Index, stamp_ms: int) -> None:
        self.first_index, self.stamp_ms = first_index, stamp_ms
        self.bodies: list[Buffer] = []
        self.units: list[Unit] = []
        self.early: list[Unit] = []
        self.early_count = 0
        self.additions: list[Addition] = []
        self.cursors: list[Cursor] = []
        self.frees_space = False
        self.size = 0
        self.positions: list[int] | tuple[int, ...] = ()
        self.term = Term(-1)


class Cursor:
    """The next number of one producer and stream, in this leadership.

    `wanted`: how the properties of the next message begin. Numbers taken since the batch began are
    told to the table when the batch is proposed (`Batch.cursors`), or earlier when it is asked.
    """

    __slots__ = ("batch", "first", "first_index", "head", "last_index", "next", "producer",
                 "stream", "wanted")  # fmt: skip

    def __init__(self, producer: str, stream: str, following: int) -> None:
        self.producer, self.stream, self.next = producer, stream, following
        self.head = b"%b%b\x02%b" % (PRODUCER, producer.encode(), SEQUENCE)
        self.wanted = b"%b%d\x02" % (self.head, following)
        self.batch: Batch | None = None
        self.first = following
        self.first_index = self.last_index = NO_INDEX

    def begin(self, sequence: int) -> None:
        """Go on at a later number, for a producer that numbers by batches; none may be pending."""
        assert self.batch is None
        assert sequence > self.next
        self.next, self.wanted = sequence, b"%b%d\x02" % (self.head, sequence)

    def take(self, batch: Batch, index: Index, count: int = 1) -> None:
        """Give the next `count` numbers to `index` and the entries after it, in `batch`."""
        if self.batch is not batch:
            self.batch = batch
            self.first, self.first_index = self.next, index
            batch.cursors.append(self)
        self.last_index = Index(index + count - 1)
        self.next += count
        self.wanted = b"%b%d\x02" % (self.head, self.next)

    def note(self) -> Note:
        """The numbers taken in the batch; none are pending any more."""
        self.batch = None
        return Note(
            self.producer,
            self.stream,
            self.first,
            self.next - self.first,
            self.first_index,
            self.last_index,
        )
