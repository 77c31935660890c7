"""`spark.readStream.format("dledger")`: Spark's side of a stream (docs/spec/pipeline.md 2.3, 4.1).

    initialOffset ─► latestOffset(start, limit) ─► partitions(start, end) ─► read, in tasks
                          │ end ≤ committed, within the limit; written to Spark's log first
    commit(end)      positions copied to a group, if wanted; always one batch late

One instance lives on the driver as long as the query; another one is pickled for the workers, so
only `options` may matter to `read`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from cluster.protocol.json_body import MessageQueue
from pipeline.source.batch import TaskPartition
from pipeline.source.bounds import Bounds, bounds, lost, places
from pipeline.source.group import commit_to_group
from pipeline.source.offsets import fixed_options, from_json, to_json
from pipeline.source.options import SourceOptions
from pipeline.source.plan import record_bytes, stream_ranges, tasks
from pipeline.source.remote import Remote, remote
from pipeline.source.waiting import Admission, admitted, waiting
from pipeline.source.ways import check, choose, kept


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module's text."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._fixed = fixed_options(options)
        self._target: dict[MessageQueue, int] | None = None  # of the trigger availableNow
        self._latest: dict[MessageQueue, int] | None = None
        self._waiting_since = 0.0
        self._checked = ""  # the way of reading that can still be gone
        self._told: set[str] = set()  # losses that were logged; an idle stream looks very often

    # -- offsets -----------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins (`startingOffsets`), with the way of
        reading.
        """
        place, known = self._look()
        start = places(place, self._options, self._options.start, known, is_end=False)
        return to_json(start, self._fixed, choose(place, self._options, known))

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options for a trigger; the first that is set of rows, bytes, least
        rows.
        """
        options = self._options
        if options.offsets_per_trigger_max:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the queues' ends of this moment and no further."""
        _, known = self._look()
        self._target = {queue: row.max_offset for queue, row in known.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends; `start` when it should take no message yet. Raises
        DataLoss for messages that are gone, unless the options allow it.
        """
        options, before = self._options, from_json(start, self._fixed)
        place, known = self._look()
        self._latest = {queue: row.max_offset for queue, row in known.items()}
        found = waiting(before, known, self._target)
        for problem in found.problems:
            if problem not in self._told:
                lost(options, problem)
                self._told.add(problem)
        admission = Admission()
        if not isinstance(limit, ReadAllAvailable):
            admission = self._limits()
        end = {**before, **found.moved}
        lags = found.ranges
        for item in admitted(lags, admission, lambda: record_bytes(place, options, lags)):
            end[item.queue] = item.end
        if end != before or not lags:
            self._waiting_since = 0.0
        return to_json(end, self._fixed, self._way(place, start, known))

    def _way(self, place: Remote, offset: Mapping[str, Any], known: Bounds) -> str:
        """How the query reads, since its first start. Raises CheckpointError."""
        way = kept(offset)
        if not way:
            return choose(place, self._options, known)
        if way != self._checked:
            check(place, self._options, way, known)
            self._checked = way
        return way

    def _limits(self) -> Admission:
        options = self._options
        patient = self._target is None and not self._waited()
        return Admission(
            options.offsets_per_trigger_max,
            options.bytes_per_trigger_max,
            options.offsets_per_trigger_min if patient else 0,
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Lag in QueryProgress is this minus endOffset."""
        return None if self._latest is None else to_json(self._latest, self._fixed)

    def _waited(self) -> bool:
        """Is `maxTriggerDelay` over since messages began to wait for `minOffsetsPerTrigger`?"""
        now = time.monotonic()
        if not self._waiting_since:
            self._waiting_since = now
        return now - self._waiting_since >= self._options.trigger_delay_ms_max / 1000

    def _look(self) -> tuple[Remote, Bounds]:
        place = remote(self._options)
        return place, bounds(place, self._options)

    # -- one micro-batch ---------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Cut the ranges between two offsets into tasks, on the driver."""
        before, after = from_json(start, self._fixed), from_json(end, self._fixed)
        place, known = self._look()
        ranges = stream_ranges(self._options, before, after, known)
        planned = tasks(place, self._options, ranges)
        way = self._way(place, end, known)
        return [TaskPartition(number, task, way) for number, task in enumerate(planned)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, in a worker."""
        if isinstance(partition, TaskPartition):
            yield from partition.read(self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Store the positions under the consumer group, if the options ask for it; a failure is
        logged.
        """
        if self._options.commit_to_group:
            commit_to_group(remote(self._options), self._options, from_json(end, self._fixed))

    def stop(self) -> None:
        """Connections belong to the process (remote.py)."""
