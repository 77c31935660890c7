"""A raw log → Parquet by topic, date and queue, under a manifest that proves each queue whole.

    piece of the log ─► batches ─► rows by (topic, date, queue) ─► staged files, one row each
    all pieces ─► contiguous? ─► moved into place ─► manifest

The date is that of the store time, UTC. What is archived already is left out, so a job that ran
before adds nothing, and one that runs later adds what came meanwhile. Only committed entries are
read. A job that is killed anywhere leaves the table as it was.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from commitlog.records.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from pipeline.jobs.committed import only_committed
from pipeline.jobs.manifest import (
    STAGING,
    ArchiveError,
    ArchiveFile,
    Step,
    commit,
    contiguous,
    locked,
    read_manifest,
    sweep,
)
from pipeline.jobs.workers import Here, Workers
from pipeline.options import LogOptions, log_at
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches
from pipeline.rawlog.shares import Piece

COLUMNS = (
    "topic", "queue", "offset", "timestamp", "born_timestamp", "value", "tags", "keys",
    "properties", "term", "log_index", "physical_offset", "sys_flag", "reconsume_times",
)  # fmt: skip
_DAY_US = 24 * 3600 * 1_000_000
Group = tuple[str, int, int]  # topic, day since 1970, queue


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """One piece of the log; `done` has the next offset to archive of each queue."""

    options: LogOptions
    piece: Piece
    root: Path
    folder: str
    number: int
    done: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Archived:
    """The additions of one job."""

    files: int
    rows: int
    bytes_read: int
    bytes_written: int
    generation: int


def archive(
    store: Path | str,
    root: Path,
    *,
    options: LogOptions | None = None,
    workers: Workers | None = None,
    step: Step = lambda _: None,
) -> Archived:
    """Adds the records of `store`, a path or URL, that `root` lacks. `options`: its bounds.

    Raises ArchiveError when a queue would have a gap, StoreDamaged for a broken record.
    """
    place = log_at(store)
    given = options or place
    wanted = replace(given, path=place.path, url=place.url, columns=COLUMNS, replica="")
    wanted = only_committed(wanted)
    with locked(root):
        before = read_manifest(root)
        sweep(root, before)
        folder = f"{STAGING}/{uuid.uuid4().hex[:12]}"
        (root / folder).mkdir(parents=True)
        pieces = plan(wanted)
        done = before.next_offsets()
        tasks = [ArchiveTask(wanted, p, root, folder, n, done) for n, p in enumerate(pieces)]
        staged: list[ArchiveFile] = []
        for files in (workers or Here()).map(archive_piece, tasks):
            step("piece")
            staged += files
        after = commit(root, before, staged, step) if staged else before
        sweep(root, after)
    return Archived(
        len(staged),
        sum(file.rows for file in staged),
        sum(piece.end - piece.begin for piece in pieces),
        sum(file.size_bytes for file in staged),
        after.generation,
    )


def read_archive(root: Path, topic: str = "") -> pa.Table:
    """The rows of the files that count, of one topic or of all. Raises ArchiveError."""
    return pa.concat_tables(
        [pq.ParquetFile(root / file.path).read() for file in files_of(root, topic)]
        or [pa.schema([]).empty_table()]
    )


def files_of(root: Path, topic: str = "") -> list[ArchiveFile]:
    """Files that count, by topic, queue and first offset. Raises ArchiveError for no archive."""
    manifest = read_manifest(root)
    if not manifest.generation:
        raise ArchiveError(f"{root} is no archive; give the ROOT of dledger pipeline archive")
    found = [file for file in manifest.files if topic in ("", file.topic)]
    return sorted(found, key=lambda file: (file.topic, file.queue, file.ranges[0]))


def archive_piece(task: ArchiveTask) -> list[ArchiveFile]:
    """In a task: write the piece's rows, one staged file per topic, date and queue."""
    groups: dict[Group, list[pa.RecordBatch]] = {}
    for batch in batches(task.options, task.piece):
        for group, part in _groups(batch, task.done):
            groups.setdefault(group, []).append(part)
    return [_write(task, group, parts) for group, parts in groups.items()]


def _groups(
    batch: pa.RecordBatch, done: Mapping[tuple[str, int], int]
) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """The batch's new rows by group, in order of their offsets."""
    topics = batch.column("topic").dictionary_encode()
    codes = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    queues = batch.column("queue").to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    days = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False) // _DAY_US
    order = np.lexsort((offsets, queues, days, codes))
    flag = batch.column("sys_flag").to_numpy(zero_copy_only=False) & TRANSACTION_MASK
    queued = (flag == TRANSACTION_NONE) | (flag == TRANSACTION_COMMIT)
    order = order[queued[order]]  # half messages and roll-backs have no place in a queue
    if not len(order):
        return
    keys = np.stack((codes, days, queues))[:, order]
    edges = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
    bounds = [0, *edges.tolist(), len(order)]
    names = topics.dictionary.to_pylist()
    is_sorted = len(order) == batch.num_rows and bool((order[1:] > order[:-1]).all())
    ordered = batch if is_sorted else batch.take(pa.array(order))
    for first, last in pairwise(bounds):
        code, day, queue = (int(number) for number in keys[:, first])
        start = done.get((names[code], queue), 0)
        skip = int(np.searchsorted(offsets[order[first:last]], start)) if start else 0
        if first + skip < last:
            yield (names[code], day, queue), ordered.slice(first + skip, last - first - skip)


def _write(task: ArchiveTask, group: Group, parts: list[pa.RecordBatch]) -> ArchiveFile:
    topic, day, queue = group
    table = pa.Table.from_batches(parts)
    offsets = table.column("offset").to_numpy()
    path = (
        f"{task.folder}/{Path(task.folder).name}-{task.number:05d}-{uuid.uuid4().hex[:8]}.parquet"
    )
    size, digest = write_rows(table, task.root / path)
    date = str(np.datetime64(day, "D"))
    return ArchiveFile(path, topic, date, queue, ranges_of(offsets), len(table), size, digest)


def write_rows(table: pa.Table, path: Path) -> tuple[int, str]:
    """Writes an archive's file, synced. Returns its size in bytes and its SHA-256 in hex."""
    with path.open("wb") as out:
        pq.write_table(
            table, out, compression="zstd", compression_level=1,
            use_dictionary=["topic", "tags", "queue", "term"],
            write_statistics=["offset", "timestamp"],
        )  # fmt: skip
        out.flush()
        os.fsync(out.fileno())
    return digest_of(path)


def ranges_of(offsets: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    """Runs of neighbouring offsets."""
    ordered = np.sort(offsets)
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    firsts = np.concatenate(([0], breaks + 1))
    lasts = np.concatenate((breaks, [len(ordered) - 1]))
    return tuple(
        (int(ordered[f]), int(ordered[last])) for f, last in zip(firsts, lasts, strict=True)
    )


def digest_of(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256 in hex of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def verify(root: Path) -> int:
    """Read every file that counts and compare: digest, rows, offsets. Number of rows.

    Raises ArchiveError for the first that is not what the manifest says.
    """
    files = files_of(root)
    contiguous(files)
    rows = 0
    for file in files:
        size, digest = digest_of(root / file.path)
        if (size, digest) != (file.size_bytes, file.sha256):
            raise ArchiveError(f"{file.path} is not the file that was archived; restore it")
        table = pq.ParquetFile(root / file.path).read(columns=["topic", "offset", "queue"])
        same = pc.all(pc.equal(table.column("queue"), file.queue)).as_py()
        if not same or ranges_of(table.column("offset").to_numpy()) != file.ranges:
            raise ArchiveError(f"{file.path} has other rows than the manifest says; restore it")
        rows += len(table)
    return rows
