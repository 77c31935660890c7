"""The jobs' requests to a running cluster: positions of groups, and messages to be written."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from cluster.client import Client, connect
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from commitlog.store.config_json import parse_config
from pipeline.jobs.backlog import Positions, positions_of
from pipeline.sink.items import Numbering
from pipeline.sink.options import SinkOptions
from pipeline.sink.task import TaskSink

ROWS_MAX = 10_000  # of one batch


def positions_of_cluster(servers: str) -> Positions:
    """Positions of all groups, asked of each leader. Raises ClusterError."""
    return asyncio.run(_positions(servers))


async def _positions(servers: str) -> Positions:
    async with connect(servers) as client:
        found: dict[tuple[str, str], Mapping[int, int]] = {}
        for name in await client.routes.cluster():
            found |= positions_of(await _table(client, name))
        return found


async def _table(client: Client, broker_name: str) -> dict[str, Any]:
    connection = await client.leaders.connection(broker_name)
    answer = await connection.ask(
        RequestCode.GET_ALL_CONSUMER_OFFSET, EMPTY, time_limit=client.config.request_timeout
    )
    return parse_config(answer.body, broker_name)


def publish(rows: Sequence[Mapping[str, Any]], options: SinkOptions, identity: str) -> int:
    """Rows as JSON to `options.topic`, keyed by their topic, once per `identity`; their number.

    Raises ClusterError; IllegalOperation when the identity has other rows.
    """
    sink = TaskSink(options, Numbering(uuid.uuid5(uuid.NAMESPACE_URL, identity).hex, 0, 0))
    try:
        left = iter(rows)
        while part := list(islice(left, ROWS_MAX)):
            values = [json.dumps(row, separators=(",", ":")).encode() for row in part]
            keys = [str(row.get("topic", "")) or None for row in part]
            sink.add(
                pa.RecordBatch.from_pydict(
                    {"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.string())}
                )
            )
        return sum(sink.finish().values())
    except BaseException:
        sink.close()
        raise
