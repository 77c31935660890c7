"""Rows of a Kafka job in RocketMQ messages: null values, keys of bytes, headers of any kind.

A message of RocketMQ has a body that is never null, and properties that are text, each name once.
A row that fits goes as it is, and every client can read it. One that does not fit carries a mark,
and `schemaStyle=kafka` gives it back as it was:

    value is null             body of 0 bytes      __KAFKA_NULL     1
    key is not plain text     KEYS = base64 of it  __KAFKA_KEY      base64
    key is empty, not null    no KEYS              __KAFKA_KEY      empty
    headers do not fit        none of their own    __KAFKA_HEADERS  base64 of, for each header:
                                                   2 bytes size of the name   the name
                                                   4 bytes size of the value, -1: null   the value

Plain text is UTF-8 without the bytes 01 and 02, which part properties. Headers fit when each name
is plain text, is there once, and is none of the system's; and each value is plain text and not
empty. A list without headers is null, as with Kafka's connector.

Sizes are big-endian. A message is written whole or not at all, so no part of a mark is ever alone.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commitlog.errors import StoreDamaged
from commitlog.records.property_names import RESERVED
from pipeline.frames.batch import HEADERS

MARK = "__KAFKA_"
NULL_VALUE, KEY, HEADERS_MARK = f"{MARK}NULL", f"{MARK}KEY", f"{MARK}HEADERS"
_BASE64, _EMPTY = "base64", "empty"
_SYSTEM = "__"  # what begins so is the system's
_SEPARATORS = (b"\x01", b"\x02")
_NAME, _VALUE = struct.Struct(">H"), struct.Struct(">i")
_MARK_BYTES = re.compile(re.escape(MARK.encode()))
Pair = tuple[str, bytes | None]

#: The column of a row's marks: property pairs, encoded (pipeline/sink/items.py).
MARKS = "marks"


def carried(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns `key`, `value`, `headers` of a Kafka job → columns that a message can hold, and a
    column `marks` (binary) if any row needs one.

    Args:
        columns: arrays of one length; `value` binary, `key` binary or string, `headers` a list of
            structs of key and value.
    """
    found = dict(columns)
    count = len(found["value"])
    marks: list[bytes] | None = None

    def mark(row: int, name: str, value: str) -> None:
        nonlocal marks
        marks = marks or [b""] * count
        marks[row] += f"{name}\x01{value}\x02".encode()

    if found["value"].null_count:
        for row in np.flatnonzero(found["value"].is_null().to_numpy(zero_copy_only=False)):
            mark(int(row), NULL_VALUE, "1")
        found["value"] = pc.fill_null(found["value"], b"")
    if _is_bytes(found.get("key")):
        found["key"] = _carried_keys(found["key"], mark)
    if "headers" in found and found["headers"].null_count < count:
        found["headers"] = _carried_headers(found["headers"], mark)
    if marks:
        found[MARKS] = pa.array(marks, pa.binary())
    return found


def _is_bytes(column: Any) -> bool:
    """False for numbers and the like, which go as their text."""
    return column is not None and (
        pa.types.is_binary(column.type) or pa.types.is_string(column.type)
    )


def _carried_keys(column: Any, mark: Any) -> Any:
    column = column.cast(pa.binary())
    odd = [row for row, key in enumerate(column.to_pylist()) if key is not None and _is_odd(key)]
    if not odd:
        return column
    keys = column.to_pylist()
    for row in odd:
        mark(row, KEY, _BASE64 if keys[row] else _EMPTY)
        keys[row] = base64.b64encode(keys[row]) or None
    return pa.array(keys, pa.binary())


def _is_odd(text: bytes) -> bool:
    """True if no property can hold these bytes."""
    if not text or any(byte in text for byte in _SEPARATORS):
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False


def _carried_headers(column: Any, mark: Any) -> Any:
    rows = [
        None if row is None else [(pair["key"], pair["value"]) for pair in row if pair is not None]
        for row in column.to_pylist()
    ]
    for number, row in enumerate(rows):
        if row and not _fit(row):
            mark(number, HEADERS_MARK, base64.b64encode(_packed(row)).decode())
            rows[number] = None
    lists = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    return pa.array(lists, column.type)


def _fit(row: list[Pair]) -> bool:
    names = [name for name, _ in row]
    return len(set(names)) == len(names) and all(
        bool(name)
        and not name.startswith(_SYSTEM)
        and name not in RESERVED
        and not _is_odd(name.encode())
        and value is not None
        and not _is_odd(value if isinstance(value, bytes) else str(value).encode())
        for name, value in row
    )


def _packed(row: list[Pair]) -> bytes:
    pieces = []
    for name, value in row:
        text = (name or "").encode()
        if len(text) > 0xFFFF:
            text = text[:0xFFFF]  # of no use: the properties' limit refuses the row
        pieces += [_NAME.pack(len(text)), text]
        body = value.encode() if isinstance(value, str) else value
        pieces += [_VALUE.pack(-1 if body is None else len(body)), body or b""]
    return b"".join(pieces)


def _unpacked(text: str) -> list[Pair]:
    """Inverse of `_packed` in base64. Raises StoreDamaged for bytes that no sink wrote."""
    try:
        data = base64.b64decode(text, validate=True)
        found: list[Pair] = []
        at = 0
        while at < len(data):
            (size,) = _NAME.unpack_from(data, at)
            at += _NAME.size
            name = data[at : at + size].decode()
            (length,) = _VALUE.unpack_from(data, at + size)
            at += size + _VALUE.size
            found.append((name, None if length < 0 else data[at : at + length]))
            at += max(length, 0)
        if at != len(data):
            raise ValueError("it ends within a value")
    except (ValueError, struct.error) as error:
        raise StoreDamaged(f"the property {HEADERS_MARK} cannot be read: {error}") from None
    return found


def may_be_marked(data: memoryview) -> bool:
    """False if no message in these bytes of the log has a mark."""
    return _MARK_BYTES.search(data) is not None


def given_back(columns: Mapping[str, Any], properties: Any) -> dict[str, Any]:
    """Columns of messages → those that the job wrote.

    Args:
        columns: of `key`, `value`, `headers` those that are wanted; others pass through.
        properties: the column `properties` (map) of the same messages.

    Raises StoreDamaged for a mark that no sink wrote.
    """
    found = dict(columns)
    if "value" in found:
        null = pc.is_valid(_property(properties, NULL_VALUE))
        found["value"] = pc.if_else(null, pa.scalar(None, pa.binary()), found["value"])
    if "key" in found:
        found["key"] = _keys(found["key"], _property(properties, KEY))
    if "headers" in found:
        marks = _property(properties, HEADERS_MARK)
        if marks.null_count < len(marks):
            rows = own_headers(found["headers"]).to_pylist()
            for row, mark in enumerate(marks.to_pylist()):
                if mark is not None:
                    rows[row] = [{"key": k, "value": v} for k, v in _unpacked(mark)]
            found["headers"] = pa.array(rows, HEADERS)
        else:
            found["headers"] = own_headers(found["headers"])
    return found


def _property(properties: Any, name: str) -> Any:
    return pc.map_lookup(properties, pa.scalar(name), "last")


def _keys(keys: Any, marks: Any) -> Any:
    if marks.null_count == len(marks):
        return keys
    rows = keys.to_pylist()
    try:
        for row, mark in enumerate(marks.to_pylist()):
            if mark == _EMPTY:
                rows[row] = b""
            elif mark == _BASE64:
                rows[row] = base64.b64decode(rows[row] or b"", validate=True)
    except ValueError as error:
        raise StoreDamaged(f"the key of a property {KEY} cannot be read: {error}") from None
    return pa.array(rows, pa.binary())


def own_headers(column: Any) -> Any:
    """All properties as headers → those that a user gave; null where there is none."""
    names = column.flatten().field("key")
    system = pc.or_(
        pc.starts_with(names, _SYSTEM), pc.is_in(names, value_set=pa.array(sorted(RESERVED)))
    )
    keep = pc.invert(system).to_numpy(zero_copy_only=False)
    bounds = column.offsets.to_numpy(zero_copy_only=False)
    bounds = bounds - bounds[0]
    before = np.concatenate(([0], np.cumsum(keep)))
    ends = before[bounds]
    empty = np.diff(ends) == 0
    offsets = pa.array(ends.astype(np.int32), mask=np.append(empty, False))
    return pa.ListArray.from_arrays(offsets, column.flatten().filter(pa.array(keep)), type=HEADERS)
