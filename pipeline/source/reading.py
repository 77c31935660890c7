"""One task → record batches: the workers' half, without Spark. Stateless, so it can be repeated.

A task gives exactly the messages of its ranges that match the filter, or fails.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from cluster.errors import RequestNotSupported, Unauthorized
from pipeline.source.offsets import QueueRange
from pipeline.source.options import SourceOptions
from pipeline.source.pulling import pulled
from pipeline.source.raw import fetched, is_sparse, places_of
from pipeline.source.records import Chunk, batches
from pipeline.source.remote import Remote, SourceError, remote
from pipeline.source.tasks import Task

_log = logging.getLogger(__name__)


def read(options: SourceOptions, task: Task) -> Iterator[pa.RecordBatch]:
    """Raises SourceError, DataLoss, StoreDamaged, ClusterError."""
    schema = options.schema()
    for chunk in chunks(remote(options), options, task):
        for batch in batches(chunk, schema, kafka=options.kafka_style):
            if batch.num_rows:
                yield batch


def chunks(place: Remote, options: SourceOptions, task: Task) -> Iterator[Chunk]:
    """The messages of a task, as they come. Raises as `read`."""
    for _, items in groupby(task, key=lambda item: item.queue.broker_name):
        yield from _of_broker(place, options, list(items))


def _of_broker(place: Remote, options: SourceOptions, items: list[QueueRange]) -> Iterator[Chunk]:
    """By raw ranges where that is allowed and pays, else by pulls."""
    if options.fetch != "pull" and options.expression_type == "TAG":
        try:
            places = places_of(place, options, items)
        except (Unauthorized, RequestNotSupported) as error:
            if options.fetch == "raw":
                raise
            if options.fetch == "mixed":
                raise SourceError(
                    f"{error}; this query was begun with raw ranges of the log and does not change "
                    "its order of rows: give the account the admin's right again, or start it anew"
                ) from error
            _log.info("%s; messages are pulled", error)
        else:
            if options.fetch == "raw" or not is_sparse(places):
                yield from fetched(place, options, items, places)
                return
    for item in items:
        yield from pulled(place, options, item)
