"""`write` and `writeStream` of `format("dledger")`: Spark's side (pipeline.md 2.4, 4.2).

    streaming   producer = (query id, partition), numbers = (batch id, row)
    batch       the same, with an id that the driver draws for the job, batch 0

A task that is tried again, and a batch that is written again after a crash, send the same rows
under the same numbers, and the broker stores each once. That wants rows in the same order every
time: what stands before the sink must be deterministic (sort within partitions, if in doubt).

`commit` has nothing to do: rows are stored as they come. `abort` takes nothing back, since what it
would take back may belong to an attempt that counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pipeline.options import OptionError
from pipeline.sink.options import SinkOptions, check_columns, sink_options

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark has no types here
    """What one task stored: rows per queue."""

    query: str
    partition: int
    rows: dict[str, int]


def _write(
    options: SinkOptions, query: str, batch: int, iterator: Iterator[pa.RecordBatch]
) -> Written:
    # Tasks alone need Arrow; the driver makes a writer for each micro-batch, in a new process.
    from pipeline.sink.items import Numbering
    from pipeline.sink.task import TaskSink

    context = TaskContext.get()
    assert context is not None, "it runs in a task"
    partition = context.partitionId()
    if not options.is_exactly_once:
        query = f"{query}-{uuid.uuid4().hex[:8]}"  # another producer: what came before is unknown
    sink = TaskSink(options, Numbering(query, partition, batch))
    try:
        for rows in iterator:
            sink.add(rows)
        return Written(query, partition, sink.finish())
    except BaseException:
        sink.close()
        raise


class TopicStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark has no types here
    """`writeStream`. Raises OptionError before anything runs."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query, "Spark tells its streaming tasks"
        assert batch, "Spark tells its streaming tasks"
        return _write(self._options, query, int(batch), iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Everything is stored already."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing is taken back; the batch is written again under the same numbers."""


class TopicWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark has no types here
    """`write`. Raises OptionError before anything runs."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._query = uuid.uuid4().hex  # drawn on the driver: all attempts of the job share it

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return _write(self._options, self._query, 0, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Everything is stored already."""

    def abort(self, messages: list[Any]) -> None:
        """Nothing is taken back: a log only grows."""


def batch_writer(given: Mapping[str, str], names: list[str], overwrite: bool) -> TopicWriter:
    """The writer of a batch job. Raises OptionError."""
    options = sink_options(given)
    check_columns(names, options)
    if overwrite:
        raise OptionError('a topic cannot be overwritten, only appended to: .mode("append")')
    return TopicWriter(options)


def stream_writer(given: Mapping[str, str], names: list[str], overwrite: bool) -> TopicStreamWriter:
    """The writer of a streaming query; only output mode append. Raises OptionError."""
    options = sink_options(given)
    check_columns(names, options)
    if overwrite:
        raise OptionError('a topic takes rows, not tables: outputMode("append") or "update"')
    return TopicStreamWriter(options)
