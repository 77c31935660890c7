"""An archive → a topic again, each row once, with its keys, tags, properties and times.

    files of a source queue, in order ─► rows ─► the same queue of the target topic

Born times are those of the archive; the store time is the broker's own, so the old one goes along
as properties (ORIGIN_STORE_TIMESTAMP, ms; ORIGIN_QUEUE_OFFSET). What brokers and clients put on by
themselves (unique keys, producers' numbers, regions) is left to the new ones. Compressed bodies are
sent inflated.

The producer is the archive and the source queue, the number of a row its place there: a replay that
was killed is simply run again, and one of a grown archive adds what is new. Rows by key are another
replay than rows in their old queues: who asks for both in one topic gets both.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.client.message import SYS_FLAG_COMPRESSED, inflate
from commitlog.records.property_names import RESERVED
from pipeline.jobs.archive import files_of
from pipeline.jobs.manifest import ArchiveError, ArchiveFile, read_manifest
from pipeline.jobs.workers import Here, Workers
from pipeline.sink.items import Numbering
from pipeline.sink.options import SinkOptions
from pipeline.sink.task import BORN, DirectSink

BATCH_ROWS = 5_000
STORE_TIME, OFFSET = "ORIGIN_STORE_TIMESTAMP", "ORIGIN_QUEUE_OFFSET"
_OURS = pa.array(sorted(RESERVED | {STORE_TIME, OFFSET}))


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One queue of the archive."""

    root: Path
    files: tuple[ArchiveFile, ...]
    options: SinkOptions
    numbering: Numbering
    keep_queues: bool


def replay(
    root: Path,
    source: str,
    options: SinkOptions,
    *,
    keep_queues: bool = True,
    workers: Workers | None = None,
) -> int:
    """Send topic `source` of the archive at `root` to `options.topic`; number of rows.

    `keep_queues`: rows go to the queue of the same number, so that each queue's order is the old
    one; otherwise by key, and order is kept per source queue and target queue.
    Raises ArchiveError when the archive has no such topic, ClusterError when it cannot be sent.
    """
    if not options.topic:
        raise ArchiveError("a replay needs the topic to send to")
    queues: dict[int, list[ArchiveFile]] = defaultdict(list)
    for file in files_of(root, source):
        queues[file.queue].append(file)
    if not queues:
        raise ArchiveError(f"{root} has nothing of topic {source}")
    identity = f"{read_manifest(root).identity}/{source}/{options.topic}"
    if not keep_queues:
        identity += "/by-key"  # rows stand in other queues, so their numbers are others
    query = uuid.uuid5(uuid.NAMESPACE_URL, identity).hex
    tasks = [
        ReplayTask(root, tuple(files), options, Numbering(query, queue, 0), keep_queues)
        for queue, files in sorted(queues.items())
    ]
    return sum((workers or Here()).map(replay_queue, tasks))


def replay_queue(task: ReplayTask) -> int:
    """In a task: one queue in the order of its offsets; number of rows."""
    sink = DirectSink(task.options, task.numbering)
    rows = 0
    try:
        for table in _in_order(task.root, task.files):
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                sink.add(row_batch(batch, task.keep_queues))
                rows += batch.num_rows
        sink.finish()
    except BaseException:
        sink.close()
        raise
    return rows


def _in_order(root: Path, files: Sequence[ArchiveFile]) -> list[pa.Table]:
    """Returns tables by offsets. Files with overlapping ranges (days that overlap) are merged."""
    groups: list[list[ArchiveFile]] = []
    end = -1
    for file in sorted(files, key=lambda file: file.ranges[0]):
        if groups and file.ranges[0][0] < end:
            groups[-1].append(file)
        else:
            groups.append([file])
        end = max(end, file.ranges[-1][1])
    return [_merged(root, group) for group in groups]


def _merged(root: Path, files: Sequence[ArchiveFile]) -> pa.Table:
    table = pa.concat_tables([pq.ParquetFile(root / file.path).read() for file in files])
    return table if len(files) == 1 else table.sort_by("offset")


def row_batch(batch: pa.RecordBatch, keep_queues: bool) -> pa.RecordBatch:
    """Archived rows as rows for the sink."""
    columns = {
        "value": _bodies(batch),
        "key": batch.column("keys"),
        "tags": batch.column("tags"),
        "properties": _properties(batch),
        BORN: batch.column("born_timestamp"),
    }
    if keep_queues:
        columns["queue"] = batch.column("queue")
    return pa.RecordBatch.from_pydict(columns)


def _bodies(batch: pa.RecordBatch) -> Any:
    flags = batch.column("sys_flag").to_numpy(zero_copy_only=False)
    bodies = batch.column("value")
    if not (flags & SYS_FLAG_COMPRESSED).any():
        return bodies
    pairs = zip(bodies.to_pylist(), flags.tolist(), strict=True)
    return pa.array([inflate(body, flag) for body, flag in pairs], pa.binary())


def _properties(batch: pa.RecordBatch) -> Any:
    """The user's own pairs, and where and when the message stood before."""
    column = batch.column("properties")
    bounds = column.offsets.to_numpy(zero_copy_only=False)
    first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
    names, values = column.keys.slice(first, count), column.items.slice(first, count)
    kept = pc.invert(pc.is_in(names, _OURS)).to_numpy(zero_copy_only=False)
    before = np.concatenate(([0], np.cumsum(kept)))[bounds - first]  # kept ones before each row
    rows = batch.num_rows
    stored = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
    added = [_texts(stored), _texts(batch.column("offset").to_numpy(zero_copy_only=False))]
    total = int(before[-1])
    mask = pa.array(kept)
    all_names = pa.concat_arrays(
        [names.filter(mask), pa.array([STORE_TIME] * rows + [OFFSET] * rows, pa.string())]
    )
    all_values = pa.concat_arrays([values.filter(mask), *added])
    starts = before + 2 * np.arange(rows + 1)
    order = np.empty(total + 2 * rows, dtype=np.int64)
    order[starts[:-1]] = total + np.arange(rows)
    order[starts[:-1] + 1] = total + rows + np.arange(rows)
    own = np.ones(len(order), dtype=bool)
    own[starts[:-1]] = own[starts[:-1] + 1] = False
    order[own] = np.arange(total)
    place = pa.array(order)
    return pa.MapArray.from_arrays(
        pa.array(starts.astype(np.int32)), all_names.take(place), all_values.take(place)
    )


def _texts(numbers: Any) -> Any:
    return pa.array(numbers).cast(pa.string())
