"""Verified pieces of the older log that were read a moment ago.

Readers of single entries (pulls of a consumer that is behind, queries) come back for the
neighbours. The first read of a neighbourhood is small; one that continues a piece is large.
Bounded by `PIECES_MAX` pieces of `AHEAD_SIZE`, or of one record where that is larger.
"""

from __future__ import annotations

from dledger.log.cold import Piece
from dledger.log.tail_cache import Chunk

PIECES_MAX = 8  # so many readers do not displace each other's piece; a search compares all pieces
FIRST_SIZE = 4 << 10  # bytes read for an entry with no known neighbour: a page, a few entries
AHEAD_SIZE = 128 << 10  # bytes read to continue a piece: some 100 entries, verified in 0.2 ms
NEAR = 64  # a read so many entries behind a piece still continues it: topics interleave


def chunk_of(piece: Piece) -> Chunk:
    """A piece in the form of the tail cache's chunks."""
    checked = piece.checked
    return Chunk(piece.start, checked.tail.id.index, piece.data, b"".join(checked.slots))


class RecentPieces:
    """The pieces that were read last, oldest first."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return len(self._chunks)

    def find(self, index: int) -> Chunk | None:
        """Returns the piece that holds this entry, or None."""
        for chunk in self._chunks:
            if chunk.first <= index <= chunk.last:
                return chunk
        return None

    def find_position(self, position: int) -> Chunk | None:
        """Returns the piece that holds the byte at this address, or None."""
        for chunk in self._chunks:
            if chunk.start.end <= position < chunk.start.end + len(chunk.data):
                return chunk
        return None

    def size_for(self, index: int) -> int:
        """How many bytes to read for an entry that is in no piece."""
        for chunk in self._chunks:
            if chunk.last < index <= chunk.last + NEAR:
                return AHEAD_SIZE
        return FIRST_SIZE

    def add(self, piece: Piece) -> Chunk:
        """Keep a piece, in place of the one it continues or of the oldest."""
        chunk = chunk_of(piece)
        for number, old in enumerate(self._chunks):
            if old.last < chunk.first <= old.last + NEAR:
                del self._chunks[number]
                break
        else:
            if len(self._chunks) >= PIECES_MAX:
                del self._chunks[0]
        self._chunks.append(chunk)
        return chunk

    def clear(self) -> None:
        """Forgets all pieces: after a truncation, a repair or a deletion of old log files."""
        self._chunks.clear()
