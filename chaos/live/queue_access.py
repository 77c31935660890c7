"""QueueAccess asks a replica that it chooses for a queue's end, messages and group offsets.

The consumer of `cluster.client` hides which replica answered and when; a workload records both, so
that the judge can tell a stale answer.
"""

from __future__ import annotations

from random import Random

from chaos.workloads import value_of
from cluster.client import Client
from cluster.client.connection.connection import Connection
from cluster.errors import NotFound, UnknownResponseCode
from cluster.protocol.codes import RequestCode, ResponseCode, exception_for
from cluster.protocol.headers import (
    PULL_FLAG_SUBSCRIPTION,
    OffsetResponse,
    PullRequest,
    PullResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    UpdateConsumerOffsetRequest,
    decode,
    encode,
)
from cluster.protocol.heartbeat import Subscription
from commitlog.records.message import decode_messages

NO_OFFSET = -1
PULL_COUNT_MAX = 64

Messages = tuple[tuple[int, str], ...]


class QueueAccess:
    """Requests on the queues of one topic, through a client's connections.

    Args:
        broker_name: the group that has the queues.
        any_replica: each request goes to a random replica; False: to the leader.
        ends_of_any: half of the requests for a queue's end go to a random replica. A follower must
            pass such a request to the leader, and so must a node that has just lost the lead.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        broker_name: str,
        random: Random,
        *,
        any_replica: bool,
        ends_of_any: bool = False,
    ) -> None:
        self._client, self._topic, self._broker = client, topic, broker_name
        self._random, self._any, self._ends_of_any = random, any_replica, ends_of_any
        self._limit = client.config.request_timeout

    async def end(self, queue: int) -> int:
        """The queue's end: the offset that the next message will get. Raises ClusterError."""
        request = encode(QueueRequest(self._topic, queue, bname=self._broker))
        connection = await self._connection_for_an_end()
        answer = await connection.ask(RequestCode.GET_MAX_OFFSET, request, time_limit=self._limit)
        return decode(OffsetResponse, answer.ext).offset

    async def pull(self, queue: int, offset: int) -> tuple[Messages, int]:
        """(messages as (queue offset, value), offset of the next pull). Raises ClusterError.

        If no message came, the next offset is `offset` at the queue's end, and another one when the
        messages at `offset` were deleted. The broker decides how many messages come, so few
        messages do not mean that the queue ends there.
        """
        everything = Subscription(self._topic)
        request = PullRequest(
            "chaos-reader",
            self._topic,
            queue,
            offset,
            PULL_COUNT_MAX,
            PULL_FLAG_SUBSCRIPTION,
            0,
            0,
            everything.version,
            everything.expression,
            everything.expression_type,
            bname=self._broker,
        )
        connection = await self._connection()
        answer = await connection.call(
            RequestCode.PULL_MESSAGE, encode(request), time_limit=self._limit
        )
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return (), offset
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:  # neither messages nor an end
            raise UnknownResponseCode("nothing matched a pull that asks for all", answer.code)
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            return (), decode(PullResponse, answer.ext).next_begin_offset
        if answer.code != ResponseCode.SUCCESS:
            raise exception_for(answer.code, answer.remark, answer.ext)
        return _messages(answer.body, offset), decode(PullResponse, answer.ext).next_begin_offset

    async def commit(self, group: str, queue: int, offset: int) -> None:
        """Commit a group's offset. Raises ClusterError."""
        request = UpdateConsumerOffsetRequest(group, self._topic, queue, offset, self._broker)
        connection = await self._connection()
        await connection.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET, encode(request), time_limit=self._limit
        )

    async def fetch(self, group: str, queue: int) -> int:
        """The group's committed offset, NO_OFFSET when it has none. Raises ClusterError."""
        request = QueryConsumerOffsetRequest(group, self._topic, queue, False, self._broker)
        connection = await self._connection()
        try:
            answer = await connection.ask(
                RequestCode.QUERY_CONSUMER_OFFSET, encode(request), time_limit=self._limit
            )
        except NotFound:
            return NO_OFFSET
        return decode(OffsetResponse, answer.ext).offset

    async def _connection_for_an_end(self) -> Connection:
        if self._ends_of_any and self._random.random() < 0.5:
            return await self._connection_to_any()
        return await self._connection()

    async def _connection(self) -> Connection:
        if self._any:
            return await self._connection_to_any()
        return await self._client.leaders.connection(self._broker, self._topic, look=False)

    async def _connection_to_any(self) -> Connection:
        data = self._client.routes.brokers.get(self._broker)
        if data is None or not data.addresses:
            return await self._client.leaders.connection(self._broker, self._topic, look=False)
        place = self._random.choice(sorted(set(data.addresses.values())))
        return await self._client.pool.get(place)


def _messages(body: bytes, offset: int) -> Messages:
    """Records of a pull's answer, from `offset` on."""
    return tuple(
        (stored.queue_offset, value_of(stored.body))
        for stored in decode_messages(body)
        if stored.queue_offset >= offset
    )
