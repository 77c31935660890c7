"""The driver's half of a write: before it runs, and its commit. No Arrow, no Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.sink.cluster_store import ClusterStore
from pipeline.sink.commit import commit, publish
from pipeline.sink.options import SinkOptions
from pipeline.sink.prepare import needed_topic, prepare
from pipeline.sink.staged import Staged
from pipeline.sink.worker import worker


def prepare_write(options: SinkOptions) -> None:
    """Makes the topics of a write: its own if that is asked for, and the staging topic.

    Raises OptionError, ClusterError.
    """
    mine = worker()
    client = mine.client(options.servers, options.client)
    if options.topic:
        mine.loop.run_until_complete(needed_topic(client, options.topic, options))
    if options.is_exactly_once:
        mine.loop.run_until_complete(prepare(client, options))


def commit_batch(options: SinkOptions, query: str, batch: int, tasks: Sequence[Staged]) -> bool:
    """Publishes a batch, or the manifest that an earlier commit of it stored. Raises as
    `commit`.

    False: an earlier commit of it was through, and nothing was sent.
    """
    mine = worker()
    store = ClusterStore(mine.client(options.servers, options.client), options)
    try:
        done = mine.loop.run_until_complete(commit(store, query, batch, tasks, options.topic))
        return done.manifest is not None
    finally:
        mine.loop.run_until_complete(_closed(store))


def publish_batch(options: SinkOptions, query: str, tasks: Sequence[Staged]) -> None:
    """Publish a batch that has no identity and is never repeated. Raises ClusterError."""
    mine = worker()
    store = ClusterStore(mine.client(options.servers, options.client), options)
    try:
        mine.loop.run_until_complete(publish(store, query, tasks))
    finally:
        mine.loop.run_until_complete(_closed(store))


async def _closed(store: ClusterStore) -> None:
    store.close()
