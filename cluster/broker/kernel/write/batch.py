"""The entries that one turn of the event loop adds to the log, and the units that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from commitlog.files.system import Buffer
from dledger.core.types import Index, Term
from dledger.errors import DledgerError
from dledger.producers.runs import Addition

if TYPE_CHECKING:
    from cluster.broker.kernel.write.dedup import Cursor


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
