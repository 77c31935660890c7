"""Rows of an Arrow batch → items of client batches (code 320), by columns.

Source: docs/spec/pipeline.md 5.2, step 4.

    20 bytes  size of the item, 0, 0, flag 0, size of the body      one fixed-width column
    body                                                            the column `value`
    2 bytes   size of the properties
    __PID ⟨id⟩ __SEQ ⟨number⟩ UNIQ_KEY ⟨32 hex digits⟩ TAGS … KEYS … ⟨headers⟩

All pieces of all items are joined by one call of Arrow's; the data buffer of the result is what
goes over the wire. UNIQ_KEY is made from query, batch and row, so that a repeat has the same one.

Nothing of this is on a disk; the broker stores each item's properties as they are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from commitlog.errors import StoreUsageError
from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from commitlog.records.properties import PROPERTIES_SIZE_MAX, check_user_properties
from pipeline.kafka.carriage import MARKS
from pipeline.sink.numbering import Numbering as Numbering

BODY_SIZE_MAX = 4 << 20  # RocketMQ's producers and brokers have the same limit
#: Two tasks with four queues each have 4 MiB under way. With 32 MiB, what is being committed has
#: left the memory of brokers, which read it from the file and verify it again: 0.7 of the speed.
#: It is also far fewer rows than the 4,096 that the protocol allows: each has 100 bytes at least.
REQUEST_BYTES_MAX = 128 << 10
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_HEAD_SIZE = 20
Columns = Mapping[str, Any]


class BadRow(ValueError):
    """A row that no topic can hold. No row of its Arrow batch was sent."""


def encode_items(columns: Columns, numbering: Numbering, queue: str, first_row: int) -> Any:
    """Encodes one item per row: returns a binary array with a data buffer that can be sent as it
    is.

    Args:
        columns: `value` (binary), maybe `key`, `tags` (string), `headers` (list of key and value),
            `properties` (map), `marks` (binary, pairs as they are); arrays of one length.
        queue: name of the queue, for the unique keys.
        first_row: number of the first row in this batch and queue.

    Raises BadRow.
    """
    body = columns["value"]
    count = len(body)
    if first_row + count >= BATCH_ROWS_MAX:
        raise BadRow(f"a batch has more than {BATCH_ROWS_MAX} rows for one queue; make it smaller")
    rows = np.arange(first_row, first_row + count, dtype=np.int64)
    digits = pa.array(rows + numbering.sequence(0)).cast(pa.string()).cast(pa.binary())
    tails = [tail for tail in (_pairs(columns, name) for name in _TAILS) if tail is not None]
    front = f"__PID\x01{numbering.producer}\x02__SEQ\x01".encode()
    middle = f"\x02UNIQ_KEY\x01{numbering.key_head(queue)}".encode()
    body_size = _sizes(body)
    size = _sizes(digits) + (len(front) + len(middle) + 8 + 1)
    for tail in tails:
        size = size + _sizes(tail)
    _check(body_size, size)
    pieces = [_heads(body_size, size), body, _shorts(size), front, digits, middle, _hex(rows)]
    return pc.binary_join_element_wise(*pieces, b"\x02", *tails, b"")


def requests_of(
    items: Any, born_ms: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, bytes]]:
    """(number of items, body) of requests that hold the items in order.

    `born_ms`: when each was made; a request has one such time for all its items.
    """
    ends = _changes(born_ms, len(items))
    _, offsets_buffer, data = items.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[items.offset :][: len(items) + 1]
    view = memoryview(data) if data is not None else memoryview(b"")
    first = 0
    while first < len(items):
        last = int(np.searchsorted(offsets, int(offsets[first]) + REQUEST_BYTES_MAX, "right")) - 1
        end = int(ends[np.searchsorted(ends, first, "right")])
        last = min(max(last, first + 1), end)
        yield last - first, bytes(view[int(offsets[first]) : int(offsets[last])])
        first = last


def _changes(times: NDArray[np.int64] | None, count: int) -> NDArray[np.int64]:
    """Where another time begins, and the end."""
    if times is None:
        return np.array([count])
    return np.concatenate((np.flatnonzero(np.diff(times)) + 1, [count]))


# --- pieces of items --------------------------------------------------------------------------


def _sizes(column: Any) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.binary_length(column).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def _fixed(data: NDArray[Any], width: int) -> Any:
    """Rows of `width` bytes as a binary array."""
    count = data.nbytes // width
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    )


def _heads(body_size: NDArray[np.int64], size: NDArray[np.int64]) -> Any:
    heads = np.zeros((len(size), 5), dtype=">i4")
    heads[:, 0] = size + body_size + (_HEAD_SIZE + 2)
    heads[:, 4] = body_size
    return _fixed(heads, _HEAD_SIZE)


def _shorts(size: NDArray[np.int64]) -> Any:
    return _fixed(size.astype(">i2"), 2)


def _hex(rows: NDArray[np.int64]) -> Any:
    """8 hex digits of each number."""
    nibbles = (rows[:, None] >> np.arange(28, -4, -4)) & 15
    return _fixed(_HEX[nibbles], 8)


def _pairs(columns: Columns, name: str) -> Any | None:
    """Returns the bytes that the column adds to each row's properties; None if it adds none."""
    column = columns.get(name)
    if column is None or column.null_count == len(column):
        return None
    return _TAILS[name](column)


def _property(name: str, column: Any) -> Any:
    """Returns a property pair for each value; empty for null."""
    values = as_binary(column)
    _check_text(name, values)
    return _full_ones(
        values, pc.binary_join_element_wise(f"{name}\x01".encode(), values, b"\x02", b"")
    )


def as_binary(column: Any) -> Any:
    """Text as its bytes; numbers and the like as their text."""
    is_bytes = pa.types.is_binary(column.type) or pa.types.is_string(column.type)
    return (column if is_bytes else column.cast(pa.string())).cast(pa.binary())


def _full_ones(values: Any, pairs: Any) -> Any:
    """Returns the pairs with a value that is neither null nor empty, because readers drop empty
    properties.

    Source: docs/spec/store.md 1.3.
    """
    return pc.if_else(pc.fill_null(pc.greater(pc.binary_length(values), 0), False), pairs, b"")


def _header_pairs(column: Any) -> Any:
    """headers: list of (key, value)."""
    flat = column.flatten()
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return _joined(counts, pc.struct_field(flat, "key"), pc.struct_field(flat, "value"))


def _map_pairs(column: Any) -> Any:
    """properties: map. `keys` and `items` of a slice are those of the whole array."""
    bounds = column.offsets.to_numpy(zero_copy_only=False)
    first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
    names, values = column.keys.slice(first, count), column.items.slice(first, count)
    return _joined(np.diff(bounds), names, values)


def _joined(counts: NDArray[Any], names: Any, values: Any) -> Any:
    """The pairs of each row, `counts` of them."""
    names, values = names.cast(pa.binary()), values.cast(pa.binary())
    _check_text("a header's name", names)
    _check_text("a header's value", values)
    _check_names(names)
    pairs = _full_ones(values, pc.binary_join_element_wise(names, b"\x01", values, b"\x02", b""))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), pairs), b"")


_TAILS: dict[str, Any] = {
    "tags": lambda column: _property("TAGS", column),
    "key": lambda column: _property("KEYS", column),
    "headers": _header_pairs,
    "properties": _map_pairs,
    MARKS: lambda column: column,
}


# --- what cannot be sent ----------------------------------------------------------------------


def _check(body_size: NDArray[np.int64], size: NDArray[np.int64]) -> None:
    for what, found, limit in (("body", body_size, BODY_SIZE_MAX - PROPERTIES_SIZE_MAX),
                               ("properties", size, PROPERTIES_SIZE_MAX)):  # fmt: skip
        if len(found) and int(found.max()) > limit:
            row = int(found.argmax())
            raise BadRow(f"row {row} has {int(found[row])} bytes of {what}; the limit is {limit}")


def _check_text(what: str, values: Any) -> None:
    """The separators of a property block cannot stand in names and values."""
    for byte in (b"\x01", b"\x02"):
        if pc.any(pc.match_substring(values, byte)).as_py():
            raise BadRow(f"{what} holds the byte {byte!r}, which parts properties; take it out")


def _check_names(names: Any) -> None:
    if names.null_count:
        raise BadRow(
            'a header has no name; give it one, or option("schemaStyle", "kafka"), which takes it'
        )
    try:
        check_user_properties({name.decode(): "x" for name in names.unique().to_pylist()})
    except (StoreUsageError, UnicodeDecodeError) as error:
        raise BadRow(f"headers: {error}") from None
