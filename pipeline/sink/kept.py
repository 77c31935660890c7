"""Offsets of groups in the staging topic, as marks that brokers keep without end and let grow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from cluster.client import Client
from cluster.client.routing.leader_requests import RetryingRequest
from cluster.errors import ClusterError, NotConnected, NotFound, OutcomeUnknown
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.topics import decode_topic_list
from pipeline.sink.home import Brokers


class KeptOffsets:
    """See pipeline.sink.home.Kept. `seconds_max`: how long one broker is asked."""

    def __init__(self, client: Client, topic: str, seconds_max: float) -> None:
        self._client, self._topic, self._seconds_max = client, topic, seconds_max

    async def brokers(self) -> Brokers:
        """The brokers of the cluster, and those in the topic's route."""
        routes = self._client.routes
        route = await routes.for_producing(self._topic)
        cluster = await routes.registered()
        staging = {data.broker_name for data in route.queues}
        writable = {queue.broker_name for queue in route.write_queues(self._topic)}
        return Brokers(sorted(staging | set(cluster)), sorted(staging), sorted(writable))

    async def topics(self, group: str, broker: str) -> list[str]:
        """By request 343."""
        code = RequestCode.QUERY_TOPICS_BY_CONSUMER
        answer = await self._ask(code, {"group": group}, broker)
        return decode_topic_list(answer.body)

    async def get(self, group: str, broker: str) -> int | None:
        """As the leader of the broker name has logged it."""
        request = QueryConsumerOffsetRequest(group, self._topic, 0, False, broker)
        try:
            answer = await self._ask(RequestCode.QUERY_CONSUMER_OFFSET, encode(request), broker)
        except NotFound:
            return None
        return decode(OffsetResponse, answer.ext).offset

    async def keep(self, group: str, broker: str, value: int) -> int:
        """Told, and asked for again: the answer comes when the log has it."""
        request = UpdateConsumerOffsetRequest(
            group, self._topic, 0, value, broker, advance_only=True
        )
        ends_at = time.monotonic() + self._seconds_max
        while True:  # ends when the offset is there, or with the deadline
            connection = await self._client.leaders.connection(broker, self._topic)
            limit = self._client.config.request_timeout
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            await connection.call(code, encode(request), time_limit=limit, oneway=True)
            found = await self.get(group, broker)
            if found is not None and found >= value:
                return found
            if time.monotonic() > ends_at:
                raise OutcomeUnknown(f"{broker} does not keep the mark {group}; start again")
            await asyncio.sleep(self._client.config.retry_pause)

    async def _ask(self, code: RequestCode, ext: Mapping[str, str], broker: str) -> Frame:
        queue = MessageQueue(self._topic, broker, 0)
        asking = RetryingRequest(self._client.instance, queue, time_limit=self._seconds_max)
        try:
            return await asking.ask(code, ext)
        except ClusterError as error:
            if not error.retriable:
                raise
            raise NotConnected(
                f"{broker} may keep a mark of the query and does not answer ({error}); start the "
                "query again when it is back"
            ) from error
