"""The dispatch mark: up to which position queues and index are known to be on disk.

    <root>/dispatched      one line of JSON:
        {"crc": …, "index_file": "20261120213944139", "index_next": 41,
         "position": 40469, "store_timestamp_ms": 1795176133366}

Ours, not RocketMQ's, which ignores the file. It is written after a sync of all derived files, so a
restart cuts them back to `position` and dispatches from there, however the process ended; what it
costs is bounded by the time between two marks. `index_file` and `index_next` say what the newest
index file was then: when it is gone, another program has worked on the store and the mark is void.

A crash leaves the old or the new mark, whole (write aside, sync, rename). A lost or damaged mark
costs a longer replay and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

from commitlog.files import FileSystem

NAME = "dispatched"


@dataclass(frozen=True, slots=True)
class DispatchMark:
    """`index_next` is the ordinal that the next entry of `index_file` gets; "" and 1 for none."""

    position: int
    store_timestamp_ms: int
    index_file: str = ""
    index_next: int = 1


def encode_mark(mark: DispatchMark) -> bytes:
    fields = asdict(mark)
    fields["crc"] = _crc(mark)
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def decode_mark(data: bytes) -> DispatchMark | None:
    """None for anything that is not exactly a mark."""
    try:
        fields = json.loads(data)
        crc = fields.pop("crc")
        mark = DispatchMark(**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    numbers = (mark.position, mark.store_timestamp_ms, mark.index_next)
    if not all(isinstance(number, int) for number in numbers) or crc != _crc(mark):
        return None
    return mark


def _crc(mark: DispatchMark) -> int:
    return crc32(
        f"{mark.position}|{mark.store_timestamp_ms}|{mark.index_file}|{mark.index_next}".encode()
    )


def read_mark(files: FileSystem, root: Path) -> DispatchMark | None:
    """The mark of a store, None when there is none that can be believed."""
    path = root / NAME
    return decode_mark(files.read(path)) if files.exists(path) else None


def write_mark(files: FileSystem, root: Path, mark: DispatchMark, *, staging: Path) -> None:
    """Replace the mark durably. Raises OSError."""
    files.write_atomic(root / NAME, encode_mark(mark), staging=staging)
