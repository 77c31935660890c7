"""Property blocks of many messages → pairs (docs/spec/store.md 1.3).

    name 01 value 02 name 01 value 02 …        all blocks joined: pairs without a loop

Separators alternate in well-formed blocks, so the n-th 01 and the n-th 02 enclose the n-th value.
Java 4.9.8 leaves out the last 02; the blocks of a batch in which one does, or in which anything
else is odd, are read one by one, by the rules of `commitlog.records.properties`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from commitlog.records.properties import decode_properties
from pipeline.frames.bodies import as_string

_NAME_END, _PAIR_END = 1, 2
MAP = pa.map_(pa.string(), pa.string())


class Properties:
    """Names and values of all pairs of `blocks` (a binary column), with the bounds of each block's
    pairs."""

    def __init__(self, blocks: Any) -> None:
        self._count = len(blocks)
        joined = self._joined(blocks)
        self.names, self.values, self.bounds = joined or self._one_by_one(blocks)

    def _joined(self, blocks: Any) -> tuple[Any, Any, np.ndarray[Any, Any]] | None:
        """(names, values, bounds) by columns; None when a block is odd."""
        _, offsets_buffer, data_buffer = blocks.buffers()
        offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[
            blocks.offset : blocks.offset + self._count + 1
        ]
        if data_buffer is None or offsets[0] == offsets[-1]:
            none = pa.array([], pa.string())
            return none, none, np.zeros(self._count + 1, np.int32)
        raw = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
        starts = offsets - offsets[0]
        separators = np.flatnonzero(raw - _NAME_END <= 1)  # a byte 0 becomes 255
        kinds, sizes = raw[separators], np.diff(starts)
        pairs, odd = divmod(len(separators), 2)
        if odd or (kinds[::2] != _NAME_END).any() or (kinds[1::2] != _PAIR_END).any():
            return None
        if (raw[starts[1:][sizes > 0] - 1] != _PAIR_END).any():
            return None
        edges = np.empty(4 * pairs + 1, dtype=np.int32)
        edges[0], edges[1::2] = 0, separators
        np.add(separators, 1, out=edges[2::2], casting="same_kind")
        if (edges[:-1:4] == edges[1::4]).any():
            return None  # a name is empty
        view = data_buffer.slice(int(offsets[0]), len(raw))
        slots = pa.Array.from_buffers(pa.binary(), 4 * pairs, [None, pa.py_buffer(edges), view])
        names = slots.take(pa.array(np.arange(0, 4 * pairs, 4, dtype=np.int32)))
        values = slots.take(pa.array(np.arange(2, 4 * pairs, 4, dtype=np.int32)))
        bounds = _bounds(separators[1::2], starts)
        if _is_text(view):  # cut at ASCII, so the parts are text, too
            return as_string(names), as_string(values), bounds
        return _text(names), _text(values), bounds

    def _one_by_one(self, blocks: Any) -> tuple[Any, Any, np.ndarray[Any, Any]]:
        names: list[str] = []
        values: list[str] = []
        bounds = [0]
        for block in blocks.to_pylist():
            for name, value in decode_properties(block or b"").items():
                names.append(name)
                values.append(value)
            bounds.append(len(names))
        return pa.array(names, pa.string()), pa.array(values, pa.string()), np.array(bounds, "i4")

    def map_column(self) -> Any:
        """map<string, string>"""
        offsets = pa.array(self.bounds, pa.int32())
        return pa.MapArray.from_arrays(offsets, self.names, self.values)

    def list_column(self, kind: Any) -> Any:
        """list<struct<key, value>>, as Kafka's headers: the value as bytes."""
        pairs = pa.StructArray.from_arrays(
            [self.names, self.values.cast(pa.binary())], fields=list(kind.value_type)
        )
        return pa.ListArray.from_arrays(pa.array(self.bounds, pa.int32()), pairs, type=kind)

    def column(self, name: str) -> Any:
        """One property of each message; null where it has none. The last one counts."""
        import pyarrow.compute as pc

        alike = self._names_alike
        if alike is not None:
            if name not in alike:
                return pa.nulls(self._count, pa.string())
            place = len(alike) - 1 - alike[::-1].index(name)
            every = np.arange(place, self._count * len(alike), len(alike), dtype=np.int32)
            return self.values.take(pa.array(every))
        hits = np.flatnonzero(pc.equal(self.names, name).to_numpy(zero_copy_only=False))
        owner = np.searchsorted(self.bounds, hits, side="right") - 1
        places = np.full(self._count, -1, dtype=np.int64)
        places[owner] = hits
        return self.values.take(pa.array(places, mask=places < 0))

    @functools.cached_property
    def _names_alike(self) -> list[str] | None:
        """The names that every message has, in their order; None when messages differ in them."""
        each, rest = divmod(len(self.names), max(self._count, 1))
        if rest or not each or not np.array_equal(self.bounds, np.arange(self._count + 1) * each):
            return None
        first: list[str] = self.names.slice(0, each).to_pylist()
        _, offsets, data = self.names.buffers()
        sizes = np.diff(np.frombuffer(offsets, np.int32)[: len(self.names) + 1])
        if (sizes.reshape(-1, each) != sizes[:each]).any():
            return None
        text = pa.py_buffer("".join(first).encode() * self._count)
        return first if data.slice(0, text.size).equals(text) else None


def _bounds(ends: np.ndarray[Any, Any], starts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The number of pairs before each of `starts`; quick when each block has as many."""
    each, rest = divmod(len(ends), len(starts) - 1)
    if not rest and each and np.array_equal(ends[each - 1 :: each] + 1, starts[1:]):
        return np.arange(0, len(ends) + 1, each, dtype=np.int32)
    return np.searchsorted(ends, starts).astype(np.int32)


def _is_text(data: Any) -> bool:
    """Is the buffer UTF-8? As one string it is looked at several times faster than in parts."""
    edges = pa.py_buffer(np.array([0, data.size], dtype=np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, edges, data]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _text(column: Any) -> Any:
    """Converts to strings; bytes that are not UTF-8 become replacement characters."""
    text = as_string(column)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([(v or b"").decode("utf-8", "replace") for v in column.to_pylist()])
    return text
