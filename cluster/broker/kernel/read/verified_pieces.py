"""Pieces of the log that were verified for a pull, and are kept for the next ones.

    log     │ a b c d a b c d a b c d … │ a b …          a, b, c, d: queues
    piece   └────── 1 MiB, read and verified once ──────┘
    pulls   a: all of a in it     b: all of b in it     …

Pulls of one queue come back for what follows, and those of other queues for what lies between. A
piece holds committed entries only: those are never cut off or changed, so it stays right as long as
it is kept. The first read of a neighbourhood is as large as the pull, the next one behind it 1 MiB.
When no pull looks at them for a while, all are dropped, so that a log that was read once takes no
memory for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from dledger.core.types import Index
from dledger.log.port import LogStore

PIECE_SIZE = 1 << 20  # bytes read behind a kept piece
PIECES_SIZE_MAX = 8 << 20  # bytes kept; less: queues that are read side by side push out each other
PIECES_MAX = 16  # a search among them is a few comparisons
NEAR = 256 << 10  # bytes behind a piece that still count as walking
IDLE_SECONDS = 10.0  # without a look for so long, twice that at most, pieces are dropped


class Piece(NamedTuple):
    """Verified entries in a row: `data` begins at address `begin`; `last` is the last one."""

    begin: int
    end: int
    data: bytes | memoryview
    last: Index


class VerifiedPieces:
    """The pieces of one log, oldest first. `applied()`: the newest entry that may be read."""

    def __init__(
        self,
        store: LogStore,
        applied: Callable[[], Index],
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
        dropped: Callable[[], object] = int,
    ) -> None:
        """`call_later(seconds, step)` runs a step later; without it pieces are kept for good.

        `dropped` is called when all were dropped, with no reader about.
        """
        self._store, self._applied, self._call_later = store, applied, call_later
        self._dropped = dropped
        self._pieces: list[Piece] = []
        self._size = 0
        self._is_used = self._is_watched = False

    @property
    def size(self) -> int:
        """Bytes kept."""
        return self._size

    def find(self, position: int) -> Piece | None:
        """The kept piece that holds an address."""
        self._is_used = True
        for piece in self._pieces:
            if piece.begin <= position < piece.end:
                return piece
        return None

    def read(self, position: int, index_of: Callable[[int], Index], size: int) -> Piece:
        """Verify and keep a piece with the entry of the message at `position`.

        `size` is what is wanted of it in bytes; more is read behind a kept piece. `index_of` gives
        the number of that entry. Raises StoreDamaged, or what `index_of` raises.
        """
        behind = self._behind(position)
        if behind is not None and self._store.first_index - 1 <= behind.last < self._applied():
            try:
                piece = self._keep(Index(behind.last + 1), PIECE_SIZE)
            except StoreDamaged:  # of another message: this one may be whole
                piece = behind
            if piece.begin <= position < piece.end:
                return piece
            size = max(size, PIECE_SIZE)
        piece = self._keep(index_of(position), size)
        if not piece.begin <= position < piece.end:
            raise StoreDamaged("the log ends before this message", position=position)
        return piece

    def _behind(self, position: int) -> Piece | None:
        for piece in reversed(self._pieces):
            if piece.end <= position < piece.end + NEAR:
                return piece
        return None

    def _keep(self, first: Index, size: int) -> Piece:
        part = self._store.read_range(first, self._applied(), min(size, PIECE_SIZE))
        data = part.parts[0] if len(part.parts) == 1 else memoryview(b"".join(part.parts))
        piece = Piece(part.position, part.position + part.size, data, part.last)
        if not part.size:
            return piece
        self._pieces.append(piece)
        self._size += part.size
        while len(self._pieces) > 1 and (
            self._size > PIECES_SIZE_MAX or len(self._pieces) > PIECES_MAX
        ):
            oldest = self._pieces.pop(0)
            self._size -= oldest.end - oldest.begin
        if not self._is_watched and self._call_later is not None:
            self._is_watched = True
            self._call_later(IDLE_SECONDS, self._drop_unused)
        return piece

    def _drop_unused(self) -> None:
        """Drop all pieces, unless one was looked for since the time before."""
        if self._is_used:
            self._is_used = False
            assert self._call_later is not None, "it called this"
            self._call_later(IDLE_SECONDS, self._drop_unused)
            return
        self._pieces.clear()
        self._size, self._is_watched = 0, False
        self._dropped()
