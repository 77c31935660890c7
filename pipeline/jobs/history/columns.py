"""One queue's history and logs as arrays, with values and processes as numbers.

    process  kind  value  invoked  completed  outcome  offset      one row per operation
    level    position                                              null: on disk; not told
    poll → (row, offset, value) …                                  what polls got, flat, in order
    log  → (offset, value) …                                       per replica

Strings are numbered once, over history and logs together; equal numbers mean equal strings, and 0
is the empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chaos.history import Kind, Level, Outcome

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

KINDS = {kind.value: number for number, kind in enumerate(Kind)}
OUTCOMES = {outcome.value: number for number, outcome in enumerate(Outcome)}
LEVELS = {level.value: number for number, level in enumerate(Level)}
SCHEMA = pa.schema(
    [
        ("process", pa.string()),
        ("kind", pa.string()),
        ("value", pa.string()),
        ("invoked", pa.float64()),
        ("completed", pa.float64()),  # infinite: never
        ("outcome", pa.string()),
        ("offset", pa.int64()),
        ("values", pa.list_(pa.struct([("offset", pa.int64()), ("value", pa.string())]))),
        ("level", pa.string()),  # null: on disk
        ("position", pa.int64()),  # null: not told
    ]
)
#: Columns that Parquet of earlier versions lacks: null in every row.
ADDED_COLUMNS = frozenset({"level", "position"})
LOG_SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.string())])


@dataclass(frozen=True, slots=True)
class LogColumns:
    """One replica's values, by rising offsets."""

    offset: Ints
    value: Ints

    def same(self, other: LogColumns) -> bool:
        """True if both replicas have the same values at the same offsets."""
        return np.array_equal(self.offset, other.offset) and np.array_equal(self.value, other.value)


@dataclass(frozen=True, slots=True)
class QueueColumns:
    """One queue. `poll_row`: the operation's row; `names`: string of each number.

    `in_memory`, `position`: None when no row is, or has one; most histories are such.
    """

    process: Ints
    kind: Ints
    value: Ints
    invoked: Floats
    completed: Floats
    outcome: Ints
    offset: Ints
    poll_row: Ints
    poll_offset: Ints
    poll_value: Ints
    logs: Mapping[str, LogColumns]
    names: Any
    in_memory: Mask | None = None
    position: Ints | None = None

    def __len__(self) -> int:
        return len(self.process)

    def of(self, kind: Kind, outcome: Outcome | None = Outcome.OK) -> Mask:
        """Rows of a kind, and with an outcome unless it is None."""
        found: Mask = self.kind == KINDS[kind.value]
        return found if outcome is None else found & (self.outcome == OUTCOMES[outcome.value])


def queue_columns(history: pa.Table, logs: Mapping[str, pa.Table]) -> QueueColumns:
    """From a table of SCHEMA and one of LOG_SCHEMA per replica."""
    polls = history.column("values").combine_chunks()
    flat = pc.list_flatten(polls)
    sizes = pc.fill_null(pc.list_value_length(polls), 0).to_numpy(zero_copy_only=False)
    texts = [history.column("value"), history.column("process"), flat.field("value")]
    texts += [log.column("value") for log in logs.values()]
    value, process, polled, *logged = _numbered(texts)
    names, codes = value[0], [value[1], process[1], polled[1], *(one[1] for one in logged)]
    return QueueColumns(
        process=codes[1],
        kind=_known(history.column("kind"), KINDS),
        value=codes[0],
        invoked=floats(history.column("invoked")),
        completed=floats(history.column("completed")),
        outcome=_known(history.column("outcome"), OUTCOMES),
        offset=ints(history.column("offset")),
        poll_row=np.repeat(np.arange(len(history)), sizes),
        poll_offset=ints(flat.field("offset")),
        poll_value=codes[2],
        logs={
            name: LogColumns(ints(log.column("offset")), code)
            for (name, log), code in zip(logs.items(), codes[3:], strict=True)
        },
        names=names,
        in_memory=_in_memory(history.column("level")),
        position=_positions(history.column("position")),
    )


def _numbered(texts: list[Any]) -> list[tuple[Any, Ints]]:
    """Each column as numbers of one dictionary, which comes with each."""
    pieces = [pa.array([""], pa.string())]
    for text in texts:
        chunks = text.chunks if isinstance(text, pa.ChunkedArray) else [text]
        pieces += [chunk.cast(pa.string()) for chunk in chunks]
    encoded = pa.chunked_array(pieces).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    found, at = [], 1
    for text in texts:
        found.append((encoded.dictionary, codes[at : at + len(text)]))
        at += len(text)
    return found


def _known(column: Any, numbers: Mapping[str, int]) -> Ints:
    """Raises ValueError for a word that is none of them."""
    words = pa.array(list(numbers), pa.string())
    found = pc.index_in(column, words)
    if found.null_count:
        wrong = column.filter(pc.is_null(found))[0].as_py()
        raise ValueError(f"{wrong!r} is none of {', '.join(numbers)}")
    return ints(found)


def _in_memory(column: Any) -> Mask | None:
    if column.null_count == len(column):
        return None
    levels = _known(pc.fill_null(column, Level.ON_DISK.value), LEVELS)
    found: Mask = levels == LEVELS[Level.IN_MEMORY.value]
    return found if found.any() else None


def _positions(column: Any) -> Ints | None:
    return None if column.null_count == len(column) else ints(pc.fill_null(column, -1))


def ints(column: Any) -> Ints:
    """The integers of a column without nulls."""
    made: Ints = (
        column.to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else (column.to_numpy())
    )
    return made.astype(np.int64)


def floats(column: Any) -> Floats:
    """Null is infinite: never."""
    filled = pc.fill_null(column, np.inf)
    made: Floats = filled.to_numpy().astype(np.float64)
    return made
