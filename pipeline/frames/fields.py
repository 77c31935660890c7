"""Fixed fields at any addresses of a buffer.

A view with stride 1 overlaps itself: element `n` of it is what begins at byte `n`. Taking elements
at the addresses copies one field, or a row of several, of all records in one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commitlog.records.record import HEADER_SIZE

Int64 = NDArray[np.int64]

#: Name → offset and type in an entry's header (docs/spec/raft_log.md 1.2); more may follow
#: (`fields_at`).
ENTRY_FIELDS = {
    "magic": (0, ">i4"),
    "size": (4, ">i4"),
    "index": (8, ">i8"),
    "term": (16, ">i8"),
    "position": (24, ">i8"),
}


def fields_at(fields: Mapping[str, tuple[int, str]], size: int) -> np.dtype[Any]:
    """The type of a row of `size` bytes; name → offset and numpy's name of the field's type."""
    return np.dtype(
        {
            "names": list(fields),
            "offsets": [offset for offset, _ in fields.values()],
            "formats": [kind for _, kind in fields.values()],
            "itemsize": size,
        }
    )


def copied_at(data: memoryview, at: Int64, kind: np.dtype[Any]) -> Any:
    """Copies the value at each address into an array of `kind`."""
    size = kind.itemsize
    view = np.ndarray(max(len(data) - size + 1, 0), dtype=f"V{size}", buffer=data, strides=(1,))
    return view[at].view(kind)


def uint16_at(data: memoryview, at: Int64) -> Int64:
    """Big-endian, as all fields of a log."""
    return _at(data, at, ">u2")


def uint32_at(data: memoryview, at: Int64) -> Int64:
    """The unsigned big-endian 32-bit numbers at these bytes. Raises IndexError beyond the end."""
    return _at(data, at, ">u4")


def int32_at(data: memoryview, at: Int64) -> Int64:
    """The signed big-endian 32-bit numbers at these bytes. Raises IndexError beyond the end."""
    return _at(data, at, ">i4")


def int64_at(data: memoryview, at: Int64) -> Int64:
    """The signed big-endian 64-bit numbers at these bytes. Raises IndexError beyond the end."""
    return _at(data, at, ">i8")


def _at(data: memoryview, at: Int64, kind: str) -> Int64:
    size = int(kind[-1])
    view = np.ndarray(max(len(data) - size + 1, 0), dtype=kind, buffer=data, strides=(1,))
    return view[at].astype(np.int64)


ENTRY = fields_at(ENTRY_FIELDS, HEADER_SIZE)
