"""Index keys of one batch, in log order: hashed together, put into the index together.

add(topic, key, position, time)        one by one
add_columns(hashes, positions, times)  many, hashed already          ─► columns() for the index
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from commitlog.records import accel

Column = Sequence[int]


class IndexBatch:
    """Index keys to add: parallel lists of single keys, and before them `_pieces` of columns."""

    __slots__ = ("_pieces", "keys", "positions", "times_ms", "topics")

    def __init__(self) -> None:
        self.topics: list[bytes] = []
        self.keys: list[bytes] = []
        self.positions: list[int] = []
        self.times_ms: list[int] = []
        self._pieces: list[tuple[Any, Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.keys or self._pieces)

    def add(self, topic: bytes, key: bytes, position: int, time_ms: int) -> None:
        """Add one key of the message at `position` of the log; `time_ms` is its store time."""
        self.topics.append(topic)
        self.keys.append(key)
        self.positions.append(position)
        self.times_ms.append(time_ms)

    def add_columns(self, hashes: Any, positions: Any, times_ms: Any) -> None:
        """Three parallel arrays."""
        if len(hashes):
            self._close_piece()
            self._pieces.append((hashes, positions, times_ms))

    def _close_piece(self) -> None:
        if self.keys:
            hashes = accel.index_key_hashes(self.topics, self.keys)
            self._pieces.append((hashes, self.positions[:], self.times_ms[:]))
            self._clear_lists()

    def columns(self) -> tuple[Column, Column, Column]:
        """Hashes, positions and store times of all keys: lists, or arrays where many came so."""
        if not self._pieces:
            hashes = accel.index_key_hashes(self.topics, self.keys)
            return hashes, self.positions, self.times_ms
        self._close_piece()
        if len(self._pieces) == 1:
            return self._pieces[0]
        numpy = accel.numpy()
        hashes, positions, times_ms = map(numpy.concatenate, zip(*self._pieces, strict=True))
        return hashes, positions, times_ms

    def clear(self) -> None:
        """Drop all keys, after they were put into the index."""
        self._pieces.clear()
        self._clear_lists()

    def _clear_lists(self) -> None:
        for column in (self.topics, self.keys, self.positions, self.times_ms):
            column.clear()
