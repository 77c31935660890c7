"""Keys in order, in rows of bounded length, so that a change moves one row's keys. Pure.

    rows    [a c d] [f g] [k m x]     a key's row is found by the rows' last keys, then its place
    change  in one row; a long row becomes two, a short one is joined with its neighbour
    frozen  the rows as they are now; each is copied once, before it changes

A plain sorted list moves every key behind a new one, which takes ms where it has millions. How keys
are spread over rows depends on how they came, so no result depends on it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Generic, TypeVar

K = TypeVar("K", str, int)

#: Keys of the longest row; each of several has a quarter at least, but for a last one that `extend`
#: has begun.
ROW_MAX = 4096


class SortedKeys(Generic[K]):
    """A set of keys that has the order, and the slices, of a sorted list."""

    def __init__(self, keys: Iterable[K] = ()) -> None:
        """`keys`: each once, in any order."""
        ordered = sorted(keys)
        self._count = len(ordered)
        rows = -(-self._count // (ROW_MAX // 2)) or 1
        ends = [self._count * at // rows for at in range(rows + 1)]
        self._rows: list[list[K]] = [ordered[begin:end] for begin, end in pairwise(ends)]
        self._lasts: list[K] = [row[-1] for row in self._rows if row]
        #: Of rows that `frozen` gave away, while they are rows here.
        self._lent: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, wanted: slice) -> list[K]:
        """The keys from one place to another, without a step."""
        begin, end, _ = wanted.indices(self._count)
        found: list[K] = []
        for size, row in zip(map(len, self._rows), self._rows, strict=True):
            if begin < size:
                found += row[begin:end]
            end -= size
            if end <= 0:
                break
            begin = max(0, begin - size)
        return found

    def between(self, first: K, end: K | None, limit: int = 0) -> list[K]:
        """The keys from `first` on, below `end` if it is given; `limit`: so many, 0 for all."""
        found: list[K] = []
        for row in self._rows[bisect_left(self._lasts, first) :]:
            behind = len(row) if end is None else bisect_left(row, end)
            found += row[bisect_left(row, first) : behind]
            if behind < len(row) or 0 < limit <= len(found):
                break
        return found[:limit] if limit else found

    def add(self, key: K) -> None:
        """Add a key that is not there yet."""
        if not self._count:
            self._lasts = [key]
        at = bisect_left(self._lasts, key)
        if at == len(self._lasts):
            at -= 1
            self._lasts[at] = key
        row = self._own(at)
        insort(row, key)
        self._count += 1
        if len(row) > ROW_MAX:
            self._spread(at, at + 1)

    def remove(self, key: K) -> None:
        """Remove a key that is there."""
        at = bisect_left(self._lasts, key)
        row = self._own(at)
        del row[bisect_left(row, key)]
        self._count -= 1
        if len(row) < ROW_MAX // 4 and len(self._rows) > 1:
            at = max(0, at - 1)
            self._spread(at, at + 2)
        else:
            self._lasts[at : at + 1] = row[-1:]

    def extend(self, keys: Sequence[K]) -> bool:
        """Add keys that come in order, behind all that are there, without looking for places.

        False: they do not come so, or are too many for a row, and none was added.
        """
        if not keys:
            return True
        ordered = [*self._lasts[-1:], *keys]
        if (
            len(keys) > ROW_MAX // 4
            or len(set(ordered)) < len(ordered)
            or sorted(ordered) != ordered
        ):
            return False
        if len(self._rows[-1]) + len(keys) <= ROW_MAX // 2:
            self._own(len(self._rows) - 1).extend(keys)
        else:
            self._rows.append(list(keys))
        self._lasts[len(self._rows) - 1 :] = [keys[-1]]
        self._count += len(keys)
        return True

    def frozen(self) -> list[list[K]]:
        """All keys as they are now, in rows, in order; for reading, in any thread."""
        self._lent = set(map(id, self._rows))
        return self._rows.copy()

    def give_up(self) -> list[list[K]]:
        """All rows, for an owner that uses them no more and frees them."""
        return self._rows

    def _own(self, at: int) -> list[K]:
        """A row that may be changed: a copy in its place if it was given away."""
        row = self._rows[at]
        if id(row) in self._lent:
            self._lent.discard(id(row))
            row = self._rows[at] = row.copy()
        return row

    def _spread(self, begin: int, end: int) -> None:
        """Put the keys of these rows into one, or into two where they are too many for one."""
        keys = list(chain.from_iterable(self._rows[begin:end]))
        half = len(keys) // 2 if len(keys) > ROW_MAX else len(keys)
        rows = [row for row in (keys[:half], keys[half:]) if row]
        self._lent.difference_update(map(id, self._rows[begin:end]))
        self._rows[begin:end] = rows
        self._lasts[begin:end] = [row[-1] for row in rows]
