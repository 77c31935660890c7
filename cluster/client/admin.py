"""Topics and status, asked of name servers and leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.errors import InvalidRequest, NotConnected, TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import (
    CreateTopicRequest,
    OffsetResponse,
    QueueRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import BrokerData, TopicRoute
from cluster.protocol.topics import QueueBounds, decode_topic_list

if TYPE_CHECKING:
    from cluster.client.client import Client

QUEUES_COUNT_MAX = 4096
DEFAULT_TOPIC = "TBW102"
ROUTED_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic: its route, and first and next queue offset of every queue."""

    topic: str
    route: TopicRoute
    bounds: Mapping[MessageQueue, QueueBounds]

    @property
    def message_count(self) -> int:
        """Messages that can be read."""
        return sum(row.max_offset - row.min_offset for row in self.bounds.values())


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Broker name → its addresses, leader (id 0) and term, as the name servers know them."""

    brokers: Mapping[str, BrokerData]


class Admin:
    """Made by `Client.admin`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create_topic(self, topic: str, queues: int = 4, *, perm: int = 6) -> None:
        """Create a topic, or change its number of queues, on every broker name.

        Args:
            perm: 4 read, 2 write, 6 both.

        Raises:
            InvalidRequest: the name or the number is impossible.
            ClusterError: a broker refused or could not be reached.
        """
        if not 1 <= queues <= QUEUES_COUNT_MAX:
            raise InvalidRequest(f"{queues} queues; choose 1 to {QUEUES_COUNT_MAX}")
        request = encode(CreateTopicRequest(topic, DEFAULT_TOPIC, queues, queues, perm))
        brokers = await self._client.routes.cluster()
        if not brokers:
            raise NotConnected("no broker is registered; start one with `dledger up`")
        for name in sorted(brokers):
            connection = await self._client.leaders.connection(name, topic)
            await connection.ask(
                RequestCode.UPDATE_AND_CREATE_TOPIC,
                request,
                time_limit=self._client.config.request_timeout,
            )
        await self._until_routed(topic)

    async def _until_routed(self, topic: str) -> None:
        """Brokers tell the name servers at once, but not before they answer us."""
        for _ in range(int(self._client.config.request_timeout / ROUTED_POLL_SECONDS)):
            try:
                await self._client.routes.refresh(topic)
                return
            except TopicNotFound:
                await asyncio.sleep(ROUTED_POLL_SECONDS)
        await self._client.routes.refresh(topic)

    async def list_topics(self) -> list[str]:
        """Every topic that any broker serves, internal ones too. Raises NotConnected."""
        answer = await self._client.routes.ask_nameserver(
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, EMPTY
        )
        return decode_topic_list(answer.body)

    async def describe_topic(self, topic: str) -> TopicDescription:
        """Where a topic is and how much is in it. Raises TopicNotFound, NotConnected."""
        route = await self._client.routes.refresh(topic)
        bounds = {
            queue: QueueBounds(
                await self._offset(RequestCode.GET_MIN_OFFSET, queue),
                await self._offset(RequestCode.GET_MAX_OFFSET, queue),
            )
            for queue in route.read_queues(topic)
        }
        return TopicDescription(topic, route, bounds)

    async def status(self) -> ClusterStatus:
        """Who leads what. Raises NotConnected."""
        return ClusterStatus(await self._client.routes.cluster())

    async def _offset(self, code: int, queue: MessageQueue) -> int:
        connection = await self._client.leaders.connection(queue.broker_name, queue.topic)
        ext = encode(QueueRequest(queue.topic, queue.queue_id, bname=queue.broker_name))
        answer = await connection.ask(code, ext, time_limit=self._client.config.request_timeout)
        return decode(OffsetResponse, answer.ext).offset
