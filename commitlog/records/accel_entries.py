"""Checks the headers of many entries at once, or writes them before their bodies; needs numpy.

    entry   ┌ header: 48 bytes ───────────────────────────────────────────────┬ body
            │ 0 magic │ 4 size │ 8 index │ 16 term │ 24 position │ 32 channel │
            │ 36 chain_crc │ 40 body_crc │ 44 body size              │ docs/spec/raft_log.md 1.2
    slot    │ 0 magic │ 4 position │ 12 size │ 16 index │ 24 term │        docs/spec/raft_log.md 1.5

The results equal those of the loops in dledger/log/check.py and encode.py. Those loops serve few
entries, machines without numpy, and the search for the fault of an invalid entry.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from commitlog.files.system import Buffer
from commitlog.records.accel_starts import entry_starts
from commitlog.records.checksum import crc32
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY

ENTRIES_MIN: Final = 24
"""For fewer entries the plain loops are faster."""

_FRONT_SIZE: Final = 36  # the header up to its checksums
_CHAIN_INPUT_SIZE: Final = 44  # previous chain_crc, front, body_crc
_SLOT_SIZE: Final = 32
_HEADER_FIELDS: Final = (
    *(("magic", ">i4"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8")),
    *(("position", ">i8"), ("channel", ">i4"), ("chain_crc", ">u4"), ("body_crc", ">u4")),
    ("body_size", ">i4"),
)
_SLOT_FIELDS: Final = (
    *(("magic", ">i4"), ("position", ">i8"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8")),
)
_CHAIN_INPUTS = struct.Struct(f"{_CHAIN_INPUT_SIZE}s")
_UNCHAINED = struct.Struct(f"{_CHAIN_INPUT_SIZE - 4}s")
_SLOTS = struct.Struct(f"{_SLOT_SIZE}s")


class Verified(NamedTuple):
    """The valid entries at the beginning of the data: their slots, and where the next one begins.

    `end` is an offset into the data; `chain_crc` is that of the last entry.
    """

    slots: list[bytes]
    chain_crc: int
    end: int


def verify_entries(
    numpy: Any,
    data: Buffer,
    *,
    base: int,
    index: int,
    term: int,
    chain_crc: int,
    end_max: int,
) -> Verified | None:
    """Return the valid entries at the beginning of `data`: from `index` on, all of `term`.

    None for fewer than ENTRIES_MIN, or for a wrong checksum: the plain loop then finds the fault.

    Args:
        base: the log's address of the data's first byte.
        chain_crc: that of the entry before `index`.
        end_max: highest offset at which the last record of this file may end.
    """
    starts, end = entry_starts(numpy, data, 0)
    count = len(starts)
    edges = numpy.append(starts, end)
    if end > end_max:
        count = int(numpy.searchsorted(edges, end_max, "right")) - 1
    if count < ENTRIES_MIN:
        return None
    starts, edges = starts[:count], edges[: count + 1]
    expected = _fronts(numpy, starts + base, numpy.diff(edges), index, term)
    found = _rows(numpy, data, starts)
    expected[:, 36:44] = found[:, 36:44]  # the checksums are compared below
    if found.tobytes() != expected.tobytes():
        count = int((found != expected).any(1).argmax())
        if count < ENTRIES_MIN:
            return None
        edges, expected, found = edges[: count + 1], expected[:count], found[:count]
    offsets = edges.tolist()
    with memoryview(data) as view:
        body_crcs = [crc32(view[start + HEADER_SIZE : stop]) for start, stop in pairwise(offsets)]
    inputs = numpy.empty((count, _CHAIN_INPUT_SIZE), numpy.uint8)
    inputs[0, :4] = tuple(chain_crc.to_bytes(4, "big"))
    inputs[1:, :4] = found[:-1, 36:40]
    inputs[:, 4:40] = expected[:, :_FRONT_SIZE]
    inputs[:, 40:] = found[:, 40:44]
    chain_crcs = [crc32(each) for (each,) in _CHAIN_INPUTS.iter_unpack(inputs.tobytes())]
    checksums = numpy.array((chain_crcs, body_crcs), ">u4").T
    if found[:, 36:44].tobytes() != checksums.tobytes():
        return None
    slots = [slot for (slot,) in _SLOTS.iter_unpack(_slots(numpy, expected))]
    return Verified(slots, chain_crcs[-1], offsets[-1])


class Stamped(NamedTuple):
    """`slots`: 32 bytes per entry; `chain_crc`: that of the last entry."""

    slots: bytes
    chain_crc: int


def stamp_entries(
    numpy: Any,
    data: bytearray,
    sizes: Sequence[int],
    *,
    base: int,
    index: int,
    term: int,
    chain_crc: int,
    stamp_at: int,
) -> Stamped:
    """Write the headers into `data`: it holds bodies of `sizes`, each behind space for its header.

    If `stamp_at` is not negative, writes each body's address at that byte of the body, too.
    """
    edges = numpy.zeros(len(sizes) + 1, numpy.int64)
    lengths = numpy.array(sizes, numpy.int64) + HEADER_SIZE
    lengths.cumsum(out=edges[1:])
    starts = edges[:-1]
    heads = _fronts(numpy, starts + base, lengths, index, term)
    everything = numpy.frombuffer(data, numpy.uint8)
    if stamp_at >= 0:
        addresses = (starts + (base + HEADER_SIZE)).astype(">i8").view(numpy.uint8).reshape(-1, 8)
        everything[(starts + (HEADER_SIZE + stamp_at))[:, None] + _counted(numpy, 8)] = addresses
    with memoryview(data) as view:
        body_crcs = [
            crc32(view[start + HEADER_SIZE : stop]) for start, stop in pairwise(edges.tolist())
        ]
    fields = heads.view(_types(numpy)[0])[:, 0]
    fields["body_crc"] = body_crcs
    unchained = numpy.concatenate((heads[:, :_FRONT_SIZE], heads[:, 40:44]), 1).tobytes()
    chain_crcs = []
    for (each,) in _UNCHAINED.iter_unpack(unchained):
        chain_crc = crc32(each, crc32(chain_crc.to_bytes(4, "big")))
        chain_crcs.append(chain_crc)
    fields["chain_crc"] = chain_crcs
    everything[starts[:, None] + _counted(numpy, HEADER_SIZE)] = heads
    return Stamped(_slots(numpy, heads), chain_crc)


def _fronts(numpy: Any, positions: Any, sizes: Any, index: int, term: int) -> Any:
    """Headers as rows of bytes, complete but for both checksums."""
    header_type = _types(numpy)[0]
    heads = numpy.zeros(len(positions), header_type)
    heads["magic"] = MAGIC_ENTRY
    heads["size"] = sizes
    heads["index"] = numpy.arange(index, index + len(positions))
    heads["term"] = term
    heads["position"] = positions
    heads["body_size"] = sizes - HEADER_SIZE
    return heads.view(numpy.uint8).reshape(-1, HEADER_SIZE)


def _slots(numpy: Any, heads: Any) -> bytes:
    header_type, slot_type = _types(numpy)
    fields = heads.view(header_type)[:, 0]
    slots = numpy.empty(len(heads), slot_type)
    for name, _ in _SLOT_FIELDS:
        slots[name] = fields[name]
    made: bytes = slots.tobytes()
    return made


def _rows(numpy: Any, data: Buffer, starts: Any) -> Any:
    """The headers that begin at `starts`, as rows of bytes."""
    everything = numpy.frombuffer(data, numpy.uint8)
    return everything[starts[:, None] + _counted(numpy, HEADER_SIZE)]


@lru_cache(maxsize=4)
def _counted(numpy: Any, number: int) -> Any:
    return numpy.arange(number)


@lru_cache(maxsize=1)
def _types(numpy: Any) -> tuple[Any, Any]:
    """numpy's types of a header and of a slot."""
    return numpy.dtype(list(_HEADER_FIELDS)), numpy.dtype(list(_SLOT_FIELDS))
