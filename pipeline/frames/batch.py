"""Turns stored messages into Arrow RecordBatches with the columns that the caller names.

Source: docs/spec/pipeline.md 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.frames.bodies import Variable
from pipeline.frames.fields import Int64
from pipeline.frames.head import Heads
from pipeline.frames.locate import Found
from pipeline.frames.properties import MAP, Properties

TIMESTAMP = pa.timestamp("us", "UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

#: Every column, in the order in which they come when none is named.
COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "queue": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "born_timestamp": TIMESTAMP,
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": MAP,
    "term": pa.int64(),
    "log_index": pa.int64(),
    "physical_offset": pa.int64(),
    "sys_flag": pa.int32(),
    "reconsume_times": pa.int32(),
}
#: Columns that come only when they are named.
MORE_COLUMNS: dict[str, pa.DataType] = {"headers": HEADERS}
ROWS_MAX = 10_000  # rows of a batch: 5,000 to 65,000 are equally fast (docs/spec/pipeline.md 2.5)
BYTES_MAX = 12 << 20  # bytes of a batch's records: keeps a Python worker below 200 MB


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema of some columns. Raises ValueError for an unknown or a repeated one."""
    known = COLUMNS | MORE_COLUMNS
    for name in columns:
        if name not in known:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(known)}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"columns names a column twice: {', '.join(columns)}")
    return pa.schema([(name, known[name]) for name in columns])


def cut(found: Found, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX) -> Iterator[Found]:
    """Cut `found` into pieces within both limits; a record above `bytes_max` is a piece itself."""
    ends = found.at + found.size
    first, count = 0, len(found)
    while first < count:
        last = int(np.searchsorted(ends, found.at[first] + bytes_max, side="right"))
        last = min(max(last, first + 1), first + rows_max)
        yield found.slice(first, last)
        first = last


class _Sources:
    """The parts from which one batch's columns are made; each is computed once, when needed."""

    def __init__(self, data: memoryview, found: Found, heads: Heads | None) -> None:
        self.data, self.found = data, found
        self.heads = heads or Heads(data, found.at, found.size)
        self._variable: Variable | None = None
        self._properties: Properties | None = None
        self._named: dict[str, Any] = {}

    def named(self, name: str) -> Any:
        """One property as a column, made once, although "key" and "keys" both use KEYS."""
        if name not in self._named:
            self._named[name] = self.properties.column(name)
        return self._named[name]

    @property
    def variable(self) -> Variable:
        if self._variable is None:
            self._variable = Variable(self.data, self.heads.geometry())
        return self._variable

    @property
    def properties(self) -> Properties:
        if self._properties is None:
            self._properties = Properties(self.variable.properties())
        return self._properties


def _times(milliseconds: Int64) -> Any:
    micros = pa.py_buffer(milliseconds * 1000)
    return pa.Array.from_buffers(TIMESTAMP, len(milliseconds), [None, micros])


def _small(values: Int64) -> Any:
    return pa.array(values.astype(np.int32))


def _optional(values: Int64 | None, count: int) -> Any:
    return pa.nulls(count, pa.int64()) if values is None else pa.array(values)


def _as_binary(column: Any) -> Any:
    return column.cast(pa.binary())


_MAKERS: dict[str, Callable[[_Sources], Any]] = {
    "key": lambda of: _as_binary(of.named("KEYS")),
    "value": lambda of: of.variable.body(),
    "topic": lambda of: of.variable.topic(),
    "queue": lambda of: _small(of.heads.queue_id),
    "offset": lambda of: pa.array(of.heads.queue_offset),
    "timestamp": lambda of: _times(of.heads.store_ms),
    "born_timestamp": lambda of: _times(of.heads.born_ms),
    "tags": lambda of: of.named("TAGS"),
    "keys": lambda of: of.named("KEYS"),
    "properties": lambda of: of.properties.map_column(),
    "term": lambda of: _optional(of.found.term, len(of.found)),
    "log_index": lambda of: _optional(of.found.log_index, len(of.found)),
    "physical_offset": lambda of: pa.array(of.heads.physical_offset),
    "sys_flag": lambda of: _small(of.heads.sys_flag),
    "reconsume_times": lambda of: _small(of.heads.reconsume_times),
    "headers": lambda of: of.properties.list_column(HEADERS),
}
assert set(_MAKERS) == COLUMNS.keys() | MORE_COLUMNS.keys()


def record_batch(
    data: memoryview, found: Found, schema: pa.Schema, heads: Heads | None = None
) -> pa.RecordBatch:
    """The records `found` in `data` as columns of `schema`. `heads`: their heads, if decoded.

    Raises ValueError when a record's sizes do not add up.
    """
    if len(found) == 0:
        return pa.RecordBatch.from_pylist([], schema)
    sources = _Sources(data, found, heads)
    columns = [_MAKERS[name](sources) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
