"""`write` and `writeStream` of `format("dledger")`: Spark's side (docs/spec/pipeline.md 2.4, 4.2).

    task     rows ─► staged, or inline in the commit message        nobody sees them
    driver   commit(messages) ─► commit.py                          publishes what Spark named

    streaming   the batch is known by (query id, batch id)
    batch       by (txnAppId, txnVersion, topic), as Delta has them; without them by nothing: its
                tasks may be tried again, but the job that is run again writes again

`abort` does nothing: what was staged is nobody's, and what a commit published counts.
With delivery=at-least-once tasks send their rows as they come, and `commit` has nothing to do.
"""

from __future__ import annotations

import logging
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
from pipeline.sink.staged import Staged

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark has no types here
    """The staged rows of one attempt of a task; None if it sent its rows itself."""

    query: str
    staged: Staged | None


def _write(
    options: SinkOptions, query: str, batch: int | None, iterator: Iterator[pa.RecordBatch]
) -> Written:
    """`batch`: None in a write without an identity."""
    # Tasks alone need Arrow; the driver makes a writer for each micro-batch, in a new process.
    from pipeline.sink.items import Numbering
    from pipeline.sink.task import DirectSink, StagingSink
    from pipeline.sink.worker import worker

    context = TaskContext.get()
    assert context is not None, "it runs in a task"
    partition = context.partitionId()
    sink: DirectSink | StagingSink
    if options.is_exactly_once:
        if batch is None:
            numbering = Numbering.of_a_write(query, partition)
        else:
            numbering = Numbering(query, partition, batch)
        sink = StagingSink(options, numbering)
    else:
        sink = DirectSink(options, worker().fresh_numbering())
    sink.partition = partition
    try:
        for rows in iterator:
            sink.add(rows)
        done = sink.finish()
    except BaseException:
        sink.close()
        raise
    return Written(query, done if isinstance(done, Staged) else None)


def _commit(options: SinkOptions, batch: int | None, messages: list[Any]) -> None:
    """On the driver. `batch`: None when the job will never be repeated."""
    from pipeline.sink.driver import commit_batch, publish_batch

    tasks = [message.staged for message in messages if message.staged is not None]
    if not tasks:
        return
    query = messages[0].query
    assert all(message.query == query for message in messages), "messages of one batch"
    if batch is None:
        publish_batch(options, query, tasks)
    elif not commit_batch(options, query, batch, tasks) and options.app:
        _log.warning(
            "txnVersion %d of txnAppId %s was written before, and nothing was sent now; a query "
            "with a new checkpoint counts from 0 again: give it another txnAppId",
            batch,
            options.app,
        )


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
        return _write(self._options, query.replace("-", ""), int(batch), iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Publishes the attempts that the messages name, or those that an earlier commit of the
        batch stored."""
        _commit(self._options, batchId, messages)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Has no effect: staged rows without a manifest are never visible, and published ones
        stay.
        """


class TopicWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark has no types here
    """`write`. Raises OptionError before anything runs."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        # Drawn on the driver: all attempts of the job share it.
        self._query = options.identity or uuid.uuid4().hex
        self._batch = options.version if options.app else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return _write(self._options, self._query, self._batch, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Publishes the attempts that the messages name; a version of a txnAppId once
        in each topic."""
        _commit(self._options, self._batch, messages)

    def abort(self, messages: list[Any]) -> None:
        """Has no effect: staged rows without a manifest are never visible."""


def batch_writer(
    given: Mapping[str, str], types: Mapping[str, str], overwrite: bool
) -> TopicWriter:
    """The writer of a batch job. `types`: column → type. Raises OptionError."""
    options = sink_options(given)
    check_columns(types, options)
    if overwrite:
        raise OptionError('a topic cannot be overwritten, only appended to; use .mode("append")')
    if options.is_exactly_once and not options.app:
        _log.warning(
            "this write has no txnAppId and txnVersion, so it is at-least-once when the job (or "
            "foreachBatch) is run again; give it both, in foreachBatch the batch's id as txnVersion"
        )
    _prepare(options)
    return TopicWriter(options)


def stream_writer(
    given: Mapping[str, str], types: Mapping[str, str], overwrite: bool
) -> TopicStreamWriter:
    """The writer of a streaming query. `types`: column → type. Raises OptionError.

    Output mode complete writes every row of the result again in each batch. Readers can tell the
    newest only by a key, so a frame without one is refused.
    """
    options = sink_options(given)
    check_columns(types, options)
    if overwrite and "key" not in types:
        raise OptionError(
            'outputMode("complete") writes all rows again in each batch, and without a column key '
            'readers cannot tell which are the newest; select a key, or use "append"'
        )
    if options.app:
        raise OptionError(
            "a streaming query has an identity, its checkpoint; txnAppId and txnVersion are for "
            "batch writes, as in foreachBatch: leave them out"
        )
    _prepare(options)
    return TopicStreamWriter(options)


def _prepare(options: SinkOptions) -> None:
    from pipeline.sink.driver import prepare_write

    prepare_write(options)
