"""A consumer's place in its group: heartbeats to every replica, and which queues are its own.

Followers hear heartbeats too, so that their registry is warm when they come to lead (remoting.md
4.5). Membership is asked for when a broker says that it changed (code 40), and now and then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from cluster.client.assignment import assign
from cluster.errors import ClusterError, NotConnected, TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import ConsumerListRequest, UnregisterClientRequest, encode
from cluster.protocol.heartbeat import (
    ConsumerData,
    HeartbeatData,
    Subscription,
    decode_consumer_list,
    encode_heartbeat,
)
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.consumer import Consumer

_log = logging.getLogger(__name__)


class Membership:
    """Talks to the brokers about one consumer's group."""

    def __init__(self, consumer: Consumer, subscriptions: dict[str, Subscription]) -> None:
        self._consumer, self._client = consumer, consumer.client
        self._subscriptions = subscriptions

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
            consume_from=f"CONSUME_FROM_{start}_OFFSET",
        )
        body = encode_heartbeat(HeartbeatData(self._client.client_id, (), (data,)))
        places = self._addresses()
        results = await asyncio.gather(
            *(self._tell(place, RequestCode.HEART_BEAT, {}, body) for place in places)
        )
        if None in results:
            return
        for error in results:
            if error is not None and not error.retriable:
                raise error
        raise NotConnected(f"no broker took the heartbeat ({', '.join(places) or 'no route'})")

    async def leave(self) -> None:
        """Tell every replica that this member goes."""
        request = UnregisterClientRequest(self._client.client_id, None, self._consumer.group)
        ext = encode(request)
        await asyncio.gather(
            *(
                self._tell(place, RequestCode.UNREGISTER_CLIENT, ext, b"")
                for place in self._addresses()
            )
        )

    async def assignment(self) -> tuple[list[MessageQueue], bool] | None:
        """The queues of this member, and whether it is the only one; None when nobody can say now.

        Raises:
            ClusterError: nobody answered.
        """
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
            if self._client.client_id not in members:
                return None
            is_alone = is_alone and len(members) == 1
            mine += assign(queues, members, self._client.client_id)
        return mine, is_alone

    async def _members(self, broker_name: str, topic: str) -> list[str]:
        connection = await self._client.leaders.connection(broker_name, topic)
        answer = await connection.ask(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            encode(ConsumerListRequest(self._consumer.group)),
            time_limit=self._client.config.request_timeout,
        )
        return decode_consumer_list(answer.body)

    def _addresses(self) -> list[str]:
        names = {
            data.broker_name
            for topic in self._subscriptions
            if (route := self._client.routes.known(topic)) is not None
            for data in route.brokers
        }
        brokers = self._client.routes.brokers
        places = [
            address
            for name in sorted(names)
            if name in brokers
            for address in brokers[name].addresses.values()
        ]
        return list(dict.fromkeys(places))

    async def _tell(
        self, address: str, code: int, ext: dict[str, str], body: bytes
    ) -> ClusterError | None:
        """One request to one replica; what went wrong with it, None for nothing."""
        try:
            connection = await self._client.pool.get(address)
            await connection.ask(
                code, ext or EMPTY, body, time_limit=self._client.config.request_timeout
            )
        except ClusterError as error:
            _log.debug("%s did not take request %d: %s", address, code, error)
            return error
        return None
