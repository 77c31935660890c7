"""The queues of one consumer: its share of the group's queues, or all of them.

A member of a group sends heartbeats to every replica and asks the brokers for the other members,
when a broker says that they changed (code 40) and every `rebalance_period` seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cluster.client.config import ConsumerConfig
from cluster.client.routing.broadcast import BrokerBroadcast
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
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


def assign(
    queues: Iterable[MessageQueue], members: Sequence[str], member: str
) -> list[MessageQueue]:
    """The queues of one topic that `member` reads: a contiguous range (docs/spec/remoting.md 4.5).

        queues sorted by (topic, broker name, queue id), members sorted as text
        7 queues, 3 members:  a ─ 0 1 2   b ─ 3 4   c ─ 5 6

    Each member computes the same ranges from the same lists. A name that is not in `members` gets
    no queue.
    """
    ordered = sorted(queues)
    ids = sorted(set(members))
    if member not in ids:
        return []
    number = ids.index(member)
    share, rest = divmod(len(ordered), len(ids))
    begin = number * share + min(number, rest)
    return ordered[begin : begin + share + (number < rest)]


class GroupMembership:
    """One member of a consumer group, as the brokers see it.

    Attributes:
        client_id: the member's name; its queue locks are under the same name.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: ConsumerConfig,
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self.client_id = instance.new_member_id()
        self._instance, self._group, self._config = instance, group, config
        self._subscriptions = subscriptions
        self._broadcast = BrokerBroadcast(instance, subscriptions)

    async def heartbeat(self) -> None:
        """Send a heartbeat to every replica of the topics' brokers; some may be down.

        Raises:
            NotConnected: no replica could be reached.
            ClusterError: all replicas refused, and asking again would not help.
        """
        start = self._config.start.upper()
        data = ConsumerData(
            self._group,
            tuple(self._subscriptions.values()),
            message_model="BROADCASTING" if self._config.broadcast else "CLUSTERING",
            consume_from=f"CONSUME_FROM_{start}_OFFSET",
        )
        await self._broadcast.heartbeat(HeartbeatData(self.client_id, (), (data,)))

    async def leave(self) -> None:
        """Say goodbye to every replica, so that the other members take the queues at once."""
        request = UnregisterClientRequest(self.client_id, None, self._group)
        await self._broadcast.leave(request)

    async def assignment(self) -> tuple[list[MessageQueue], bool] | None:
        """The queues of this member, and whether it is the only member.

        None if a broker does not know this member yet, so the shares cannot be computed.

        Raises:
            ClusterError: no name server or no broker answered.
        """
        if self._config.broadcast:
            return await _all_queues(self._instance, self._subscriptions), True
        mine: list[MessageQueue] = []
        is_alone = True
        for topic in self._subscriptions:
            try:
                route = await self._instance.routes.refresh(topic)
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
        request = encode(ConsumerListRequest(self._group))
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        answer = await ask_leader(self._instance, broker_name, topic, code, request)
        return decode_consumer_list(answer.body)


class StandaloneAssignment:
    """Stands in for `GroupMembership` in a reader, which has no group: it reads all queues."""

    def __init__(self, instance: ClientInstance, topics: Iterable[str]) -> None:
        self._instance, self._topics = instance, tuple(topics)

    async def heartbeat(self) -> None:
        """Send none: no broker keeps a list of readers."""

    async def leave(self) -> None:
        """Send no goodbye: no broker knows the reader."""

    async def assignment(self) -> tuple[list[MessageQueue], bool] | None:
        """All queues that can be read. Raises ClusterError when no name server answers."""
        return await _all_queues(self._instance, self._topics), True


async def _all_queues(instance: ClientInstance, topics: Iterable[str]) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    for topic in topics:
        try:
            route = await instance.routes.refresh(topic)
        except TopicNotFound:
            continue
        queues += route.read_queues(topic)
    return queues
