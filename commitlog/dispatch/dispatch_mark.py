"""The dispatch mark: up to which position queues and index are known to be on disk.

    <root>/dispatched      one line of JSON:
        {"crc": …, "index_end_ms": 1795176133366, "index_file": "20261120213944139",
         "index_next": 41, "position": 40469, "queues": {"consumequeue/T0/0": 19, …},
         "store_timestamp_ms": 1795176133366}

Ours, not RocketMQ's, which ignores the file. It is written after a sync of all derived files. So a
restart takes every queue back to its count and the index back to `index_next` entries in
`index_file`, and dispatches from `position`, however the process ended; what that costs is bounded
by the time between two marks. Counts, not positions, because a power cut may leave entries behind
the synced ones torn into something that looks like an entry. When the files cannot be brought to
these counts, another program has changed them, and they are built anew from the log.

A crash leaves the old or the new mark, whole (write aside, sync, rename). A lost or damaged mark
costs a longer replay and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from commitlog.files.system import FileSystem
from commitlog.records.checksum import crc32

NAME = "dispatched"
ROWS_OF_SLICE = 1000  # half a millisecond


@dataclass(frozen=True, slots=True)
class DispatchMark:
    """`index_next` is the ordinal that the next entry of `index_file` gets, `index_end_ms` the
    store time of the last one; "", 1 and 0 for none."""

    position: int
    store_timestamp_ms: int
    queues: dict[str, int]
    index_file: str = ""
    index_next: int = 1
    index_end_ms: int = 0


def encode_mark(mark: DispatchMark) -> bytes:
    """In slices: an event loop in another thread gets its turns however many queues there are."""
    fields = {
        "index_end_ms": mark.index_end_ms,
        "index_file": mark.index_file,
        "index_next": mark.index_next,
        "position": mark.position,
    }
    body = b'%b, "queues": {%b}, "store_timestamp_ms": %d}' % (
        json.dumps(fields).encode()[:-1],
        b", ".join(_rows(mark.queues)),
        mark.store_timestamp_ms,
    )
    return b'{"crc": %d, %b\n' % (crc32(body), body[1:])


def _rows(counts: Mapping[str, int]) -> Iterator[bytes]:
    """`"name": count` of each queue, sorted by name, many to a piece."""
    names = sorted(counts)
    for at in range(0, len(names), ROWS_OF_SLICE):
        some = {name: counts[name] for name in names[at : at + ROWS_OF_SLICE]}
        yield json.dumps(some).encode()[1:-1]


def decode_mark(data: bytes) -> DispatchMark | None:
    """None for anything that is not exactly a mark."""
    try:
        fields = json.loads(data)
        head = b'{"crc": %d, ' % fields.pop("crc")
        if not data.startswith(head) or not data.endswith(b"}\n"):
            return None
        if not data.startswith(b'{"crc": %d, ' % crc32(b"{" + data[len(head) : -1])):
            return None
        return DispatchMark(**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_mark(files: FileSystem, root: Path) -> DispatchMark | None:
    """The mark of a store, None when there is none that can be believed."""
    path = root / NAME
    return decode_mark(files.read(path)) if files.exists(path) else None


def write_mark(files: FileSystem, root: Path, mark: DispatchMark, *, staging: Path) -> None:
    """Replace the mark durably. Raises OSError."""
    files.write_atomic(root / NAME, encode_mark(mark), staging=staging)


def remove_mark(files: FileSystem, root: Path) -> None:
    """Remove the mark before derived files are built anew: they are incomplete until the next mark.

    Raises OSError.
    """
    if files.exists(root / NAME):
        files.remove(root / NAME)
        files.sync_dir(root)
