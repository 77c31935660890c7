"""Copies a stream's positions to a consumer group, for monitoring.

The checkpoint is what counts; the copy lags one micro-batch behind, because Spark says so late that
a batch is done. What cannot be stored is logged and does not stop the query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from cluster.errors import ClusterError
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import UpdateConsumerOffsetRequest, encode
from cluster.protocol.json_body import MessageQueue
from pipeline.source.options import SourceOptions
from pipeline.source.remote import Remote, SourceError

_log = logging.getLogger(__name__)


def commit_to_group(
    place: Remote, options: SourceOptions, offsets: Mapping[MessageQueue, int]
) -> None:
    """Store the next offset of every queue under `groupId`."""

    async def work() -> None:
        for queue, offset in offsets.items():
            topic, broker, queue_id = queue
            ext = encode(
                UpdateConsumerOffsetRequest(options.group, topic, queue_id, offset, broker)
            )
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            await place.ask(broker, topic, code, ext, leader=True)

    try:
        place.run(work())
    except (ClusterError, SourceError) as error:
        _log.warning("positions were not copied to the group %s: %s", options.group, error)
