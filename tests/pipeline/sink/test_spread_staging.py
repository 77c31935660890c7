"""The staging topic of a cluster that grew: brokers that came later know the home of a query."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from cluster.client.admin.topics import TopicSettings, create_on
from cluster.errors import NotConnected
from pipeline.sink.cluster_store import ClusterStore
from pipeline.sink.driver import commit_batch, prepare_write
from pipeline.sink.home import Brokers
from pipeline.sink.kept import KeptOffsets
from pipeline.sink.numbering import Numbering
from pipeline.sink.options import STAGING, sink_options
from pipeline.sink.prepare import STAGING_QUEUES
from pipeline.sink.task import StagingSink
from pipeline.sink.worker import worker
from tests.conftest import running_cluster


def test_while_the_home_is_away_a_broker_that_came_later_begins_no_query_anew(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The staging topic was made when there was one broker name; now there are two.

    While the first one is away, a driver finds no staging topic, and makes it on the other one.
    """
    with running_cluster(tmp_path, [new_address() for _ in range(2)], {}, groups=2) as cluster:
        options = sink_options({"servers": cluster.nameserver, "topic": "t"})
        client, run = (
            worker().client(options.servers, options.client),
            worker().loop.run_until_complete,
        )
        first, second = sorted(run(client.routes.registered()))
        settings = TopicSettings(STAGING_QUEUES, STAGING_QUEUES, 6, None)
        run(create_on(client.instance, first, STAGING, settings))
        run(client.admin().create_topic("t", 1))
        prepare_write(options)
        query = uuid.uuid4().hex
        sink = StagingSink(options, Numbering(query, 0, 0))
        sink.add(pa.record_batch({"value": pa.array([b"row"] * 9, pa.binary())}))
        assert commit_batch(options, query, 0, [sink.finish()])
        store = ClusterStore(client, options)
        home = run(store.remembered(query)).place.broker
        other = second if home == first else first

        async def brokers(_: KeptOffsets) -> Brokers:
            return Brokers([other], [other], [other])

        run(create_on(client.instance, other, STAGING, settings))
        monkeypatch.setattr(KeptOffsets, "brokers", brokers)
        with pytest.raises(NotConnected, match="that keeps the mark of query"):
            run(ClusterStore(client, options).remembered(query))
