"""Do replicas hold the same bytes? Hashes of chunks first, then the entries of those that differ.

    each replica's log ─► pieces ─► (first index, last index, hash of the bytes between)
                                         │ differ
                                         ▼
                                    entry by entry: the first that differs anywhere

Replicas of one group are byte-identical, headers included, so a chunk's hash is that of its bytes.
Compared is what all of them hold and all of them know to be committed. A replica whose log cannot
be read at a place is named with that place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import numpy as np

from commitlog.errors import StoreDamaged, StoreUsageError
from commitlog.records.record import HEADER_SIZE
from pipeline.frames.locate import Found
from pipeline.jobs.committed import committed_index
from pipeline.jobs.workers import Here, Workers
from pipeline.options import LogOptions, log_at
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import bytes_of, located
from pipeline.rawlog.shares import Piece, slots_of

CHUNK_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class AuditTask:
    """One piece of one replica."""

    replica: str
    options: LogOptions
    piece: Piece


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of one replica at an index; all -1 if it cannot be read."""

    term: int
    size: int
    checksum: int
    position: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first index of a chunk at which replicas differ."""

    index: int
    entries: Mapping[str, Entry]

    def __str__(self) -> str:
        told = ", ".join(
            f"{name}: term {e.term}, {e.size} bytes, crc {e.checksum:08x}, at {e.position}"
            for name, e in self.entries.items()
        )
        return f"entry {self.index} differs: {told}"


@dataclass(frozen=True, slots=True)
class Audit:
    """Compared were the entries `first`..`last` of every replica."""

    first: int
    last: int
    chunks: int
    differences: tuple[Difference, ...]
    damaged: Mapping[str, str]

    @property
    def is_clean(self) -> bool:
        """True if all entries compared are alike and no replica was damaged."""
        return not self.differences and not self.damaged


def audit(replicas: Mapping[str, Path | str], *, workers: Workers | None = None) -> Audit:
    """Compare the logs of stopped nodes, copies of them, backups; name → path or URL.

    Raises StoreUsageError for fewer than two replicas, or stores without a common range.
    """
    if len(replicas) < 2:
        raise StoreUsageError("one replica is no audit; give two or more")
    logs = {name: log_at(place) for name, place in replicas.items()}
    first, last = _common(logs)
    if first > last:
        raise StoreUsageError(f"the replicas share no committed entries ({first} to {last})")
    tasks = []
    for name, log in logs.items():
        options = replace(log, start_index=first, end_index=last + 1)
        tasks += [AuditTask(name, options, piece) for piece in plan(options)]
    hashes: dict[tuple[int, int], dict[str, bytes]] = defaultdict(dict)
    damaged: dict[str, str] = {}
    for task, found in zip(tasks, (workers or Here()).map(hash_piece, tasks), strict=True):
        for low, high, digest in found.chunks:
            hashes[low, high][task.replica] = digest
        if found.damage:
            damaged.setdefault(task.replica, found.damage)
    wrong = [chunk for chunk, told in sorted(hashes.items()) if not _alike(told, len(replicas))]
    differences = list(_drill_down(logs, wrong))
    return Audit(first, last, len(hashes), tuple(differences), damaged)


@dataclass(frozen=True, slots=True)
class PieceHashes:
    """Chunks of one piece as (first index, last index, hash)."""

    chunks: list[tuple[int, int, bytes]]
    damage: str = ""


def hash_piece(task: AuditTask) -> PieceHashes:
    """In a task: the hashes of the piece's chunks, up to where it cannot be read."""
    chunks: list[tuple[int, int, bytes]] = []
    try:
        for data, found in _read(task.options, task.piece):
            assert found.log_index is not None
            for low, high in _cuts(found):
                begin = int(found.at[low]) - HEADER_SIZE
                end = int(found.at[high - 1] + found.size[high - 1])
                digest = blake2b(data[begin:end], digest_size=16).digest()
                chunks.append((int(found.log_index[low]), int(found.log_index[high - 1]), digest))
    except StoreDamaged as error:
        return PieceHashes(chunks, str(error))
    return PieceHashes(chunks)


def _read(options: LogOptions, piece: Piece) -> Iterator[tuple[memoryview, Found]]:
    """Stretches of entries within the options' bounds."""
    with bytes_of(piece) as data:
        for found in located(options, piece, data):
            if found.log_index is None:
                raise StoreUsageError(
                    f"{piece.path} is no replicated log; name the folder of a node"
                )
            low = int(np.searchsorted(found.log_index, options.start_index))
            high = int(np.searchsorted(found.log_index, options.end_index))
            if high > low:
                yield data, found.slice(low, high)


def _cuts(found: Found) -> Iterator[tuple[int, int]]:
    """Rows of each chunk: cut at multiples of CHUNK_ENTRIES, wherever pieces end."""
    assert found.log_index is not None
    numbers = found.log_index // CHUNK_ENTRIES
    edges = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *edges.tolist(), len(found)]
    yield from pairwise(bounds)


def _alike(told: Mapping[str, bytes], count: int) -> bool:
    return len(told) == count and len(set(told.values())) == 1


def _common(logs: Mapping[str, LogOptions]) -> tuple[int, int]:
    """First index that all hold, last one that all know to be committed."""
    first, last = 0, 1 << 62
    for log in logs.values():
        committed = committed_index(log)
        if committed is None:
            raise StoreUsageError(f"{log.where} is no replicated log; name the folder of a node")
        last = min(last, committed)
        first = max(first, _first_index(log))
    return first, last


def _first_index(log: LogOptions) -> int:
    for piece in plan(log):  # a backup may begin with a piece that has a blank alone
        if piece.index:
            return int(slots_of(piece)["index"][0])
        for _, found in _read(replace(log, start_index=0, end_index=1 << 62), piece):
            assert found.log_index is not None
            return int(found.log_index[0])
    return 0


# --- drill-down -------------------------------------------------------------------------------


def _drill_down(
    logs: Mapping[str, LogOptions], chunks: Sequence[tuple[int, int]]
) -> Iterator[Difference]:
    """The first difference of each run of chunks that differ."""
    for low, high in _joined(chunks):
        tables = {name: _entries(log, low, high) for name, log in logs.items()}
        for index in range(low, high + 1):
            told = {name: table.get(index, _NONE) for name, table in tables.items()}
            if len({(e.term, e.size, e.checksum) for e in told.values()}) > 1:
                yield Difference(index, told)
                break


_NONE = Entry(-1, -1, -1, -1)


def _joined(chunks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges of chunks that lie in one multiple of CHUNK_ENTRIES: pieces may part them."""
    ranges: dict[int, tuple[int, int]] = {}
    for low, high in chunks:
        number = low // CHUNK_ENTRIES
        before = ranges.get(number, (low, high))
        ranges[number] = min(before[0], low), max(before[1], high)
    yield from ranges.values()


def _entries(log: LogOptions, low: int, high: int) -> dict[int, Entry]:
    """Entries low..high of one replica, as far as they can be read."""
    options = replace(log, start_index=low, end_index=high + 1)
    found: dict[int, Entry] = {}
    for piece in plan(options):
        for way in (piece, replace(piece, index="")):  # the second ends where damage begins
            try:
                for data, rows in _read(options, way):
                    found |= _table(piece, data, rows)
                break
            except StoreDamaged:
                continue
    return found


def _table(piece: Piece, data: memoryview, rows: Found) -> dict[int, Entry]:
    assert rows.log_index is not None
    assert rows.term is not None
    table = {}
    for at, size, index, term in zip(
        rows.at.tolist(),
        rows.size.tolist(),
        rows.log_index.tolist(),
        rows.term.tolist(),
        strict=True,
    ):
        begin = at - HEADER_SIZE
        checksum = crc32(data[begin : at + size])
        table[index] = Entry(term, size + HEADER_SIZE, checksum, piece.position + begin)
    return table
