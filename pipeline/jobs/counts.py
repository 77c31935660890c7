"""Counts rows per topic, queue and minute; batch and streaming queries use the same function.

    topic, queue, offset, timestamp, value ─► topic, queue, minute, messages, bytes, first, last

`minute` is the beginning of the minute of the store time. Counts of parts are added up by
`merged`; `first` and `last` are the lowest and the highest offset of the minute.

    frame.mapInArrow(count_batches, COUNTS_DDL)          batch or streaming DataFrame of a topic
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("topic", "queue", "offset", "timestamp", "value")
MINUTE_US = 60_000_000
COUNTS = pa.schema(
    [
        ("topic", pa.string()),
        ("queue", pa.int32()),
        ("minute", pa.timestamp("us", "UTC")),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)
COUNTS_DDL = (
    "topic string, queue int, minute timestamp, messages bigint, bytes bigint, first bigint, "
    "last bigint"
)
_KEYS = ["topic", "queue", "minute"]
PART_ROWS_MAX = 100_000  # counts that are kept before they are added up: bounds memory


def count_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts of all batches, added up; for `mapInArrow` and for tasks of a job."""
    parts: list[pa.Table] = []
    for batch in batches:
        if batch.num_rows:
            parts.append(count_batch(batch))
            if sum(len(part) for part in parts) > PART_ROWS_MAX:
                parts = [merged(parts)]
    if parts:
        yield from merged(parts).to_batches()


def count_batch(batch: pa.RecordBatch) -> pa.Table:
    """Counts of one batch that has COLUMNS."""
    topics = batch.column("topic").dictionary_encode()
    code = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    queue = batch.column("queue").to_numpy(zero_copy_only=False).astype(np.int64)
    offset = batch.column("offset").to_numpy(zero_copy_only=False)
    stamp = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
    size = pc.binary_length(batch.column("value")).to_numpy(zero_copy_only=False).astype(np.int64)
    minute = stamp // MINUTE_US
    order = np.lexsort((minute, queue, code))
    keys = np.stack((code, queue, minute))[:, order]
    starts = np.concatenate(([0], np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1))
    ends = np.concatenate((starts[1:], [len(order)]))
    return pa.Table.from_arrays(
        [
            topics.dictionary.take(pa.array(keys[0, starts])),
            pa.array(keys[1, starts].astype(np.int32)),
            pa.array(keys[2, starts] * MINUTE_US).cast(COUNTS.field("minute").type),
            pa.array(ends - starts),
            pa.array(np.add.reduceat(size[order], starts)),
            pa.array(np.minimum.reduceat(offset[order], starts)),
            pa.array(np.maximum.reduceat(offset[order], starts)),
        ],
        schema=COUNTS,
    )


def merged(parts: Iterable[pa.Table]) -> pa.Table:
    """Counts of several parts added up, by topic, queue and minute."""
    table: Any = pa.concat_tables([COUNTS.empty_table(), *parts])
    sums = [("messages", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max")]
    grouped = table.group_by(_KEYS, use_threads=False).aggregate(sums)
    named = grouped.select([*_KEYS, *(f"{name}_{how}" for name, how in sums)])
    return (
        named.rename_columns(COUNTS.names).cast(COUNTS).sort_by([(k, "ascending") for k in _KEYS])
    )
