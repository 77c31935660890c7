"""Columns of messages, their Arrow types, RecordBatches of the wanted ones.

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
ROWS_MAX = 10_000  # of one batch: flat between 5,000 and 65,000 (docs/spec/pipeline.md 2.5)
BYTES_MAX = 12 << 20  # of one batch's records: keeps a Python worker below 200 MB


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Raises ValueError for a column that does not exist, or one named twice."""
    known = COLUMNS | MORE_COLUMNS
    for name in columns:
        if name not in known:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(known)}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"columns names one twice: {', '.join(columns)}")
    return pa.schema([(name, known[name]) for name in columns])


def cut(found: Found, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX) -> Iterator[Found]:
    """`found` in pieces of at most so many rows and bytes (one record may be larger)."""
    ends = found.at + found.size
    first, count = 0, len(found)
    while first < count:
        last = int(np.searchsorted(ends, found.at[first] + bytes_max, side="right"))
        last = min(max(last, first + 1), first + rows_max)
        yield found.slice(first, last)
        first = last


class _Row:
    """The sources of one batch's columns; each part is made once, when it is needed."""

    def __init__(self, data: memoryview, found: Found, heads: Heads | None) -> None:
        self.data, self.found = data, found
        self.heads = heads or Heads(data, found.at, found.size)
        self._variable: Variable | None = None
        self._properties: Properties | None = None
        self._named: dict[str, Any] = {}

    def named(self, name: str) -> Any:
        """One property as a column; two columns may want the same one."""
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


_MAKERS: dict[str, Callable[[_Row], Any]] = {
    "key": lambda row: _as_binary(row.named("KEYS")),
    "value": lambda row: row.variable.body(),
    "topic": lambda row: row.variable.topic(),
    "queue": lambda row: _small(row.heads.queue_id),
    "offset": lambda row: pa.array(row.heads.queue_offset),
    "timestamp": lambda row: _times(row.heads.store_ms),
    "born_timestamp": lambda row: _times(row.heads.born_ms),
    "tags": lambda row: row.named("TAGS"),
    "keys": lambda row: row.named("KEYS"),
    "properties": lambda row: row.properties.map_column(),
    "term": lambda row: _optional(row.found.term, len(row.found)),
    "log_index": lambda row: _optional(row.found.log_index, len(row.found)),
    "physical_offset": lambda row: pa.array(row.heads.physical_offset),
    "sys_flag": lambda row: _small(row.heads.sys_flag),
    "reconsume_times": lambda row: _small(row.heads.reconsume_times),
    "headers": lambda row: row.properties.list_column(HEADERS),
}
assert set(_MAKERS) == COLUMNS.keys() | MORE_COLUMNS.keys()


def record_batch(
    data: memoryview, found: Found, schema: pa.Schema, heads: Heads | None = None
) -> pa.RecordBatch:
    """The records `found` in `data` as columns of `schema`. `heads`: theirs, when there are some.

    Raises ValueError when a record's sizes do not add up.
    """
    if len(found) == 0:
        return pa.RecordBatch.from_pylist([], schema)
    row = _Row(data, found, heads)
    return pa.RecordBatch.from_arrays([_MAKERS[name](row) for name in schema.names], schema=schema)
