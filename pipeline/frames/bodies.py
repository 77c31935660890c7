"""Variable fields of many records, copied by Arrow's `take` (docs/spec/pipeline.md 5.2, step 3).

Each record is six neighbouring slots of one binary array that lies over the buffer:

    body │ topic length │ topic │ properties length │ properties │ up to the next record

Taking every sixth slot from one of them copies one field of all records, in C++.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.frames.head import Geometry

_SLOTS = 6
SPAN_MAX = (1 << 31) - 1  # Arrow's 32-bit offsets; a batch is far smaller


class Variable:
    """Body, topic and properties of records that stand in order in `data`."""

    def __init__(self, data: memoryview, geometry: Geometry) -> None:
        self._count = count = len(geometry.body)
        if not count:
            self._slots: Any = pa.array([], pa.binary())
            return
        base, end = int(geometry.body[0]), int(geometry.end[-1])
        assert end - base <= SPAN_MAX, "a batch is cut long before"
        edges = np.empty(count * _SLOTS + 1, dtype=np.int32)
        rows = edges[:-1].reshape(count, _SLOTS)
        rows[:, 0] = geometry.body - base
        rows[:, 1] = geometry.body_end - base
        rows[:, 2] = geometry.topic - base
        rows[:, 3] = geometry.topic_end - base
        rows[:, 4] = geometry.properties - base
        rows[:, 5] = geometry.end - base
        edges[-1] = end - base
        view = pa.py_buffer(data).slice(base, end - base)
        self._slots = pa.Array.from_buffers(
            pa.binary(), count * _SLOTS, [None, pa.py_buffer(edges), view]
        )

    def _pick(self, slot: int) -> Any:
        if not self._count:
            return self._slots
        places = np.arange(slot, self._count * _SLOTS, _SLOTS, dtype=np.int32)
        return self._slots.take(pa.array(places))

    def body(self) -> Any:
        """binary"""
        return self._pick(0)

    def topic(self) -> Any:
        """string; topics are ASCII, so no byte is looked at"""
        return as_string(self._pick(2))

    def properties(self) -> Any:
        """binary: whole property blocks"""
        return self._pick(4)


def as_string(column: Any) -> Any:
    """The same bytes as a string column, without a copy. Offsets of `column` begin at 0."""
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers())
