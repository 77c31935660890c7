"""Many small files of an archive → few large ones, in an archive of its own.

    files of one topic, day and queue, by offset ─► one file of up to `file_bytes`, in a task
    all files ─► moved into place ─► manifest of the target

The source is only read: streams that follow it count its files. The target is an archive, too, so
`verify`, `replay` and `format("dledger-archive")` take it; and since its folders are partitions
(`topic=…/date=…/queue=…`) that hold nothing else, any reader of Parquet takes it as a table.

Run again, a target gets what the source got meanwhile: the files of a partition that grew are made
again, all others stay. A target whose files were replaced has a new identity, so a stream that
follows it ends with an error instead of reading rows twice. A job that is killed anywhere leaves
the target as it was.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.jobs.archive import digest_of, files_of, ranges_of, write_rows
from pipeline.jobs.manifest import (
    STAGING,
    ArchiveError,
    ArchiveFile,
    Manifest,
    Step,
    commit,
    locked,
    read_manifest,
    sweep,
)
from pipeline.jobs.workers import Here, Workers

FILE_BYTES = 256 << 20  # of the files that go into one; the new one is rarely larger
Partition = tuple[str, str, int]  # topic, date, queue


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Files of one partition that become one file at `staged`, a path below `target`."""

    root: Path
    files: tuple[ArchiveFile, ...]
    target: Path
    staged: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """The additions of one job, and the number of source files that went into them."""

    files: int
    rows: int
    files_read: int
    generation: int


def compact(
    root: Path,
    target: Path,
    *,
    file_bytes: int = FILE_BYTES,
    workers: Workers | None = None,
    step: Step = lambda _: None,
) -> Compacted:
    """Brings `target` up to the archive at `root`, with one file a partition.

    Args:
        root: an archive; no file of it is changed.
        target: a new folder, or the target of an earlier job of the same archive.
        file_bytes: files of a partition are put together until their sizes add up to this.
        workers: where tasks run; they read `root` and write `target` by the same paths.
        step: called before each thing that a crash may come between.

    Raises ArchiveError when `root` is no archive, when a file of it is damaged, or when `target`
    has rows that `root` lacks.
    """
    if root.resolve() == target.resolve():
        raise ArchiveError(f"{root} cannot be compacted into itself; name a new folder")
    with locked(target):
        before = read_manifest(target)
        sweep(target, before)
        stale, kept = _split(files_of(root), before.files, target)
        if not stale:
            return Compacted(0, 0, 0, before.generation)
        folder = f"{STAGING}/{uuid.uuid4().hex[:12]}"
        (target / folder).mkdir(parents=True)
        lots = [lot for files in stale.values() for lot in _lots(files, file_bytes)]
        tasks = [
            CompactTask(root, lot, target, f"{folder}/{Path(folder).name}-{number:05d}.parquet")
            for number, lot in enumerate(lots)
        ]
        staged = []
        for file in (workers or Here()).map(compact_files, tasks):
            step("lot")
            staged.append(file)
        identity = before.identity if len(kept) == len(before.files) else ""
        after = commit(target, Manifest(before.generation, kept, identity), staged, step)
        sweep(target, after)
    rows = sum(file.rows for file in staged)
    return Compacted(len(staged), rows, sum(map(len, lots)), after.generation)


def compact_files(task: CompactTask) -> ArchiveFile:
    """In a task: one file of the rows of all, by offset. Raises ArchiveError for a damaged one."""
    table = pa.concat_tables(_checked(task.root, file) for file in task.files)
    table = table.sort_by("offset")
    ranges = ranges_of(table.column("offset").to_numpy())
    size, digest = write_rows(table, task.target / task.staged)
    first = task.files[0]
    return replace(
        first, path=task.staged, ranges=ranges, rows=len(table), size_bytes=size, sha256=digest
    )


def _checked(root: Path, file: ArchiveFile) -> pa.Table:
    """The rows of a file. Damage is not handed on, since the source may go afterwards."""
    if digest_of(root / file.path) != (file.size_bytes, file.sha256):
        raise ArchiveError(f"{file.path} is not the file that was archived; restore it")
    return pq.ParquetFile(root / file.path).read()


def _split(
    source: Sequence[ArchiveFile], made: Sequence[ArchiveFile], target: Path
) -> tuple[dict[Partition, list[ArchiveFile]], tuple[ArchiveFile, ...]]:
    """Partitions to make, with their files in the source; files of the target that stay."""
    theirs, ours = _by_partition(source), _by_partition(made)
    for partition in ours:
        lacks = partition not in theirs
        if lacks or not _covers(_ranges(theirs[partition]), _ranges(ours[partition])):
            topic, date, queue = partition
            raise ArchiveError(
                f"{target} has rows of {topic} queue {queue}, {date}, that the source lacks, so it "
                "is of another archive; name a new folder"
            )
    stale = {
        partition: files
        for partition, files in theirs.items()
        if partition not in ours or _ranges(files) != _ranges(ours[partition])
    }
    kept = tuple(file for file in made if _partition(file) not in stale)
    return stale, kept


def _partition(file: ArchiveFile) -> Partition:
    return file.topic, file.date, file.queue


def _by_partition(files: Iterable[ArchiveFile]) -> dict[Partition, list[ArchiveFile]]:
    found: dict[Partition, list[ArchiveFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: (*_partition(file), file.ranges[0])):
        found[_partition(file)].append(file)
    return found


def _ranges(files: Iterable[ArchiveFile]) -> list[tuple[int, int]]:
    """Runs of offsets of all of them; neighbouring runs are one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(run for file in files for run in file.ranges):
        if found and found[-1][1] + 1 == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def _covers(whole: Sequence[tuple[int, int]], part: Sequence[tuple[int, int]]) -> bool:
    return all(any(a <= first and last <= b for a, b in whole) for first, last in part)


def _lots(files: Sequence[ArchiveFile], file_bytes: int) -> Iterator[tuple[ArchiveFile, ...]]:
    """Cuts files into neighbours with `file_bytes` in all at most, or one larger file.

    Files whose offsets overlap stay together: a file of the target is one run where it can be.
    """
    lot = [files[0]]
    for before, file in pairwise(files):
        full = sum(one.size_bytes for one in lot) + file.size_bytes > file_bytes
        if full and before.ranges[-1][1] < file.ranges[0][0]:
            yield tuple(lot)
            lot = []
        lot.append(file)
    yield tuple(lot)
