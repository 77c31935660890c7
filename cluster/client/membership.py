"""A consumer's place in its group: heartbeats to every replica, and which queues are its own.

`Alone` is the place of a consumer without a group: no broker hears of it, and every queue is its
own.

Membership is asked for when a broker says that it changed (code 40), and now and then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cluster.client.assignment import assign
from cluster.client.everywhere import Everywhere
from cluster.client.repeating import ask_leader
from cluster.errors import TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import ConsumerListRequest, UnregisterClientRequest, encode
from cluster.protocol.heartbeat import (
    ConsumerData,
    HeartbeatData,
    Subscription,
    decode_consumer_list,
)
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.consumer import Consumer


class Membership:
    """Talks to the brokers about one consumer's group.

    Attributes:
        client_id: of this member; its locks are under it, too.
    """

    def __init__(self, consumer: Consumer, subscriptions: dict[str, Subscription]) -> None:
        self._consumer, self._client = consumer, consumer.client
        self._subscriptions = subscriptions
        self.client_id = consumer.client.new_consumer_id()
        self._is_broadcasting = consumer.config.broadcast
        self._everywhere = Everywhere(self._client, subscriptions)

    async def heartbeat(self) -> None:
        """Tell every replica of every broker name of the topics; some may be down.

        Raises:
            NotConnected: none could be reached.
            ClusterError: all refused, and asking again would not help.
        """
        start = self._consumer.config.start.upper()
        data = ConsumerData(
            self._consumer.group,
            tuple(self._subscriptions.values()),
            message_model="BROADCASTING" if self._is_broadcasting else "CLUSTERING",
            consume_from=f"CONSUME_FROM_{start}_OFFSET",
        )
        await self._everywhere.heartbeat(HeartbeatData(self.client_id, (), (data,)))

    async def leave(self) -> None:
        """Tell every replica that this member goes."""
        request = UnregisterClientRequest(self.client_id, None, self._consumer.group)
        await self._everywhere.leave(request)

    async def assignment(self) -> tuple[list[MessageQueue], bool] | None:
        """The queues of this member, and whether it is the only one; None when nobody can say now.

        Raises:
            ClusterError: nobody answered.
        """
        if self._is_broadcasting:
            return await Alone(self._consumer, self._subscriptions).assignment()
        mine: list[MessageQueue] = []
        is_alone = True
        for topic in self._subscriptions:
            try:
                route = await self._client.routes.refresh(topic)
            except TopicNotFound:
                continue
            queues = route.read_queues(topic)
            if not queues:
                continue
            members = await self._members(queues[0].broker_name, topic)
            if self.client_id not in members:
                return None
            is_alone = is_alone and len(members) == 1
            mine += assign(queues, members, self.client_id)
        return mine, is_alone

    async def _members(self, broker_name: str, topic: str) -> list[str]:
        request = encode(ConsumerListRequest(self._consumer.group))
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        answer = await ask_leader(self._client, broker_name, topic, code, request)
        return decode_consumer_list(answer.body)


class Alone:
    """Stands for `Membership` where there is no group."""

    def __init__(self, consumer: Consumer, topics: Iterable[str]) -> None:
        self._routes, self._topics = consumer.client.routes, tuple(topics)

    async def heartbeat(self) -> None:
        """Nobody waits for one."""

    async def leave(self) -> None:
        """Nothing was left behind."""

    async def assignment(self) -> tuple[list[MessageQueue], bool] | None:
        """Every queue that can be read. Raises ClusterError when nobody says which there are."""
        queues: list[MessageQueue] = []
        for topic in self._topics:
            try:
                route = await self._routes.refresh(topic)
            except TopicNotFound:
                continue
            queues += route.read_queues(topic)
        return queues, True
