"""Administration of a cluster: topics, messages, members and status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.client.admin.group_admin import GroupAdmin
from cluster.client.admin.lead_moves import LeadMoves, lead_moves
from cluster.client.admin.replica_comparison import Ask, Comparison, compare
from cluster.client.admin.replica_states import replica_states
from cluster.client.admin.stored_messages import found_in
from cluster.client.admin.topics import (
    TopicDescription,
    TopicSettings,
    alter_on,
    check_queue_count,
    create_on,
    delete_from_all,
    topic_names,
    topic_settings,
    until_routed,
)
from cluster.client.message import ReceivedMessage
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.offset_lookup import FIRST, LAST, offset_at
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import InvalidRequest, NotConnected, NotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.durability import Durability
from cluster.protocol.frames import Frame
from cluster.protocol.headers import QueryMessageRequest, decode, encode
from cluster.protocol.replica_headers import (
    ChangeMembersRequest,
    ListMembersRequest,
    ScrubLogRequest,
    TransferLeaderRequest,
    TransferLeaderResponse,
    VerifyLogRequest,
)
from cluster.protocol.route import BrokerData
from cluster.protocol.topics import QueueBounds

TIME_MAX_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Broker name → its addresses, leader (id 0) and term, as the name servers have them."""

    brokers: Mapping[str, BrokerData]


class Admin:
    """Made by `Client.admin`."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    def groups(self) -> GroupAdmin:
        """Consumer groups: their members and lag, and moving them to other offsets."""
        return GroupAdmin(self._instance)

    async def create_topic(
        self, topic: str, queues: int = 4, *, perm: int = 6, durability: Durability | None = None
    ) -> dict[str, TopicSettings]:
        """Create a topic on each broker name that lacks it; an existing one stays as it is.

        Args:
            perm: 4 read, 2 write, 6 both.
            durability: when its sends are acknowledged, unless the message names a level; None:
                as the broker is set.

        Returns the settings on each broker name.

        Raises:
            InvalidRequest: the name or the number is impossible.
            ClusterError: a broker refused or could not be reached.
        """
        check_queue_count(queues)
        wanted = TopicSettings(queues, queues, perm, durability)
        for name in sorted(await self._instance.routes.registered()):
            await create_on(self._instance, name, topic, wanted)
        return await until_routed(self._instance, topic)

    async def alter_topic(
        self,
        topic: str,
        queues: int | None = None,
        *,
        perm: int | None = None,
        durability: Durability | None = None,
    ) -> dict[str, TopicSettings]:
        """Change the given settings on each broker name. Returns the settings on each.

        With fewer queues, new messages go to the remaining ones only; the others stay readable
        while they hold messages. Once retention has removed these, call again to drop the queues.

        Raises:
            TopicNotFound: the topic does not exist.
            InvalidRequest: the number is impossible.
            ClusterError: a broker refused or could not be reached.
        """
        if queues is not None:
            check_queue_count(queues)
        for name in sorted(await self._instance.routes.registered()):
            await alter_on(
                self._instance,
                name,
                topic,
                lambda old: TopicSettings(
                    old.read_queues if queues is None else queues,
                    old.write_queues if queues is None else queues,
                    old.perm if perm is None else perm,
                    durability,
                ),
            )
        return await until_routed(self._instance, topic)

    async def delete_topic(self, topic: str) -> None:
        """Remove a topic from every broker name and wait until the name servers have forgotten it.

        Its messages stay in the log until retention removes them, but no request reads them.

        Raises:
            TopicNotFound: no broker has it.
            ClusterError: a broker refused or could not be reached; call again.
        """
        await delete_from_all(self._instance, topic)

    async def find_messages(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 32,
        begin_ms: int = 0,
        end_ms: int = TIME_MAX_MS,
    ) -> list[ReceivedMessage]:
        """Messages with a key, or with a message id, from the brokers' key index, oldest first.

        Args:
            key: the key or the message id.
            begin_ms, end_ms: bounds of the time of storing, in ms since 1970.

        Raises:
            TopicNotFound, NotConnected: no broker can be asked.
            ClusterError: a broker refused.
        """
        route = await self._instance.routes.refresh(topic)
        request = QueryMessageRequest(topic, key, count_max, begin_ms, end_ms)
        found: list[ReceivedMessage] = []
        for data in route.brokers:
            name = data.broker_name
            try:
                answer = await self._lead(name, RequestCode.QUERY_MESSAGE, encode(request), topic)
            except NotFound:
                continue
            found += found_in(answer.body, topic, name)
        return sorted(found, key=lambda message: message.store_timestamp_ms)[:count_max]

    async def list_topics(self) -> list[str]:
        """Every topic that any broker serves, internal ones too. Raises NotConnected."""
        return await topic_names(self._instance)

    async def describe_topic(self, topic: str) -> TopicDescription:
        """The route and the offsets of a topic. Raises TopicNotFound, NotConnected."""
        route = await self._instance.routes.refresh(topic)
        bounds = {
            queue: QueueBounds(
                await offset_at(self._instance, queue, FIRST),
                await offset_at(self._instance, queue, LAST),
            )
            for queue in route.read_queues(topic)
        }
        return TopicDescription(topic, route, bounds)

    async def topic_settings(self, topic: str) -> TopicSettings:
        """Queues, permission and durability, as its first broker says; all have the same.

        Raises TopicNotFound, NotConnected.
        """
        route = await self._instance.routes.refresh(topic)
        return await topic_settings(self._instance, route.brokers[0].broker_name, topic)

    async def status(self) -> ClusterStatus:
        """The leader of each broker name. Raises NotConnected."""
        return ClusterStatus(await self._instance.routes.cluster())

    async def replicas(self) -> list[dict[str, Any]]:
        """One row for each replica of each broker name, from its own answer.

        Each row has `node`, `group`, `address`, `up` and `role` ("unreachable" without an answer);
        with an answer also `term`, `leader`, `first_index`, `last_index`, `flushed_index`,
        `committed_index`, `applied_index`, `dispatched_index` (counted from 0), `disk`,
        `disk_detail`, `disk_used_ratio` (0 to 1), `messages_in_per_second` and
        `messages_out_per_second` of the last minute, `durability`, `failed`,
        `clock_ahead_seconds` (of this machine's clock) and `clock_doubt_seconds` (half of the time
        that the answer took). Raises NotConnected.
        """
        return await replica_states(self._instance)

    async def lead_moves(self) -> list[LeadMoves]:
        """The leaders of each broker name as its replicas remember them. Raises NotConnected."""
        return await lead_moves(self._instance)

    async def transfer_leader(self, broker_name: str, node: str | None = None) -> dict[str, str]:
        """Hand the lead of a broker name to `node` (id or client address; None: the best one).

        Returns broker, leader and address. Requests under way wait for the new leader.

        Raises:
            InvalidRequest: the group has no such node.
            PlannedMove: the node is too far behind or silent, so the present leader stays.
        """
        request = encode(TransferLeaderRequest(node, broker_name))
        answer = await self._lead(broker_name, RequestCode.TRANSFER_LEADER, request)
        found = decode(TransferLeaderResponse, answer.ext)
        return {"broker": broker_name, "leader": found.node, "address": found.address or ""}

    async def members(self, broker_name: str) -> dict[str, Any]:
        """The members of a group, its visitors, and how many may fail, as its leader has them."""
        return await self._members(
            RequestCode.LIST_MEMBERS, broker_name, ListMembersRequest(broker_name)
        )

    async def change_members(
        self, broker_name: str, kind: str, node: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Add, add-learner, remove or readmit one node. Returns `members` as it is afterwards.

        The change is committed when this returns; a node that was added or readmitted becomes a
        voter when it has caught up. With `dry_run` the group does not change.

        Raises:
            InvalidRequest: this change is not possible.
            PlannedMove: another change is under way, or the node has not connected yet.
            OutcomeUnknown: the leader changed meanwhile; list the members.
        """
        request = ChangeMembersRequest(kind, node, dry_run, broker_name)
        return await self._members(RequestCode.CHANGE_MEMBERS, broker_name, request)

    async def _members(self, code: int, broker_name: str, request: object) -> dict[str, Any]:
        answer = await self._lead(broker_name, code, encode(request))
        found: dict[str, Any] = orjson.loads(answer.body)
        return found

    async def _lead(
        self, broker_name: str, code: int, ext: Mapping[str, str], topic: str = DEFAULT_TOPIC
    ) -> Frame:
        return await ask_leader(self._instance, broker_name, topic, code, ext)

    async def verify(self, broker_name: str) -> Comparison:
        """Compare the replicas of a group by the rolling checksums that each reads from its disk.

        Raises NotConnected if one of them cannot be asked.
        """

        def asker(address: str) -> Ask:
            async def ask(first: int, last: int) -> dict[str, Any]:
                request = VerifyLogRequest(first, last, broker_name)
                return await self._one(address, RequestCode.VERIFY_LOG, request)

            return ask

        replicas = await self._replicas(broker_name)
        return await compare({address: asker(address) for address in replicas})

    async def scrub(
        self, broker_name: str, node: str | None = None, *, start: bool = True
    ) -> list[dict[str, Any]]:
        """Each replica's state of repair; with `start` each begins a pass over its log.

        `node`: only this one, by id or client address. Raises NotConnected, InvalidRequest.
        """
        replicas = await self._replicas(broker_name)
        look = ScrubLogRequest(False, broker_name)
        states = {a: await self._one(a, RequestCode.SCRUB_LOG, look) for a in replicas}
        if node is not None:
            names = ", ".join(sorted(state["node"] for state in states.values()))
            states = {a: state for a, state in states.items() if node in (a, state["node"])}
            if not states:
                raise InvalidRequest(f"{node} is no replica of {broker_name}; name one of {names}")
        if start:
            begin = ScrubLogRequest(True, broker_name)
            states = {a: await self._one(a, RequestCode.SCRUB_LOG, begin) for a in states}
        return list(states.values())

    async def _replicas(self, broker_name: str) -> list[str]:
        """Client addresses of a group, in order. Raises NotConnected if no node has its name."""
        known = (await self._instance.routes.cluster()).get(broker_name)
        if known is None:
            raise NotConnected(f"no broker {broker_name} is registered; dledger status shows them")
        return known.nodes

    async def _one(self, address: str, code: int, request: object) -> dict[str, Any]:
        """One replica's own answer."""
        connection = await self._instance.pool.get(address)
        answer = await connection.ask(
            code, encode(request), time_limit=self._instance.config.request_timeout
        )
        found: dict[str, Any] = orjson.loads(answer.body)
        return found

    async def spread_leaders(self) -> list[dict[str, str]]:
        """Have each broker name led by the next node, in order. Raises as `transfer_leader`."""
        brokers = await self._instance.routes.cluster()
        moved = []
        for number, name in enumerate(sorted(brokers)):
            replicas = brokers[name].nodes
            target = replicas[number % len(replicas)]
            moved.append(await self.transfer_leader(name, target))
        return moved
