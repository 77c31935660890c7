"""Plans a read: its ranges, and its tasks. The driver's half, without Spark.

    options ─► bounds of all queues ─► start and end of each ─► tasks

A plan is a function of the ranges and the options, and of records that do not change while they are
kept: a replayed micro-batch gets the same tasks (docs/spec/pipeline.md 4.1, rule 2).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from cluster.errors import ClusterError
from cluster.protocol.json_body import MessageQueue
from pipeline.source.bounds import Bounds, bounds, lost, places, said
from pipeline.source.offsets import QueueRange
from pipeline.source.options import SourceOptions
from pipeline.source.pulling import first_bytes
from pipeline.source.remote import Remote
from pipeline.source.tasks import Division, Task, divide

_log = logging.getLogger(__name__)
RECORD_BYTES_GUESS = 1024  # of a message that cannot be looked at


def batch_ranges(remote: Remote, options: SourceOptions) -> list[QueueRange]:
    """Everything that a batch read covers. Raises OptionError, DataLoss, SourceError."""
    known = bounds(remote, options)
    start = places(remote, options, options.start, known, is_end=False)
    end = places(remote, options, options.end, known, is_end=True)
    return [QueueRange(queue, start[queue], max(end[queue], start[queue])) for queue in known]


def stream_ranges(
    options: SourceOptions,
    start: Mapping[MessageQueue, int],
    end: Mapping[MessageQueue, int],
    known: Bounds,
) -> list[QueueRange]:
    """Returns the ranges of one micro-batch. Raises DataLoss.

    A queue that `start` does not have begins at its first message; one that ends before it starts
    belongs to a topic that was deleted and made again.
    """
    ranges: list[QueueRange] = []
    for queue, last in end.items():
        row = known.get(queue)
        first = start.get(queue, 0 if row is None else row.min_offset)
        if last == first:
            continue
        if row is None:
            lost(options, f"{said(queue)} does not exist any more; {first} to {last} are gone")
            continue
        if last < first or last > row.max_offset:
            lost(
                options,
                f"{said(queue)} has {row.min_offset} to {row.max_offset} and was read up to "
                f"{first}: the topic was made anew",
            )
            first, last = row.min_offset, min(last, row.max_offset)
        if first < row.min_offset:
            lost(
                options,
                f"{said(queue)} begins at {row.min_offset} by now; "
                f"{first} to {min(row.min_offset, last)} are gone",
            )
            first = row.min_offset
        if last > first:
            ranges.append(QueueRange(queue, first, last))
    return ranges


def tasks(remote: Remote, options: SourceOptions, ranges: Sequence[QueueRange]) -> list[Task]:
    """The ranges as tasks."""
    how = Division(
        options.partition_bytes,
        options.partitions_min,
        options.partitions_max,
        options.partition_records,
    )
    return divide(ranges, record_bytes(remote, options, ranges), how)


def record_bytes(
    remote: Remote, options: SourceOptions, ranges: Sequence[QueueRange]
) -> dict[str, int]:
    """Topic → bytes of a record, about: the mean of the first records of its largest range.

    Raises SourceError: guessing because nobody answers would make another plan of the same range.
    """
    largest: dict[str, QueueRange] = {}
    for item in sorted(ranges):
        known = largest.get(item.queue.topic)
        if item.size > (known.size if known is not None else 0):
            largest[item.queue.topic] = item
    found: dict[str, int] = {}
    for topic, item in largest.items():
        try:
            found[topic] = first_bytes(remote, options, item)
        except ClusterError as error:  # pulls are refused, every time: the plan stays the same
            _log.info("sizes of %s are guessed: %s", topic, error)
            found[topic] = RECORD_BYTES_GUESS
    return found
