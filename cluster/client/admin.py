"""Topics and status, asked of name servers and leaders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from cluster.client.finding import TIME_MAX_MS, find_by_key
from cluster.client.group_admin import GroupAdmin
from cluster.client.message import ReceivedMessage
from cluster.client.places import FIRST, LAST, offset_at
from cluster.client.repeating import ask_leader
from cluster.client.replica_states import replica_states
from cluster.client.verifying import Ask, Comparison, compare
from cluster.errors import InvalidRequest, NotConnected, TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.durability import Durability, durability_of
from cluster.protocol.frames import EMPTY, Frame
from cluster.protocol.headers import (
    ALTER_ONLY,
    CREATE_ONLY,
    CreateTopicRequest,
    TopicRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.leader_headers import TransferLeaderRequest, TransferLeaderResponse
from cluster.protocol.member_headers import ChangeMembersRequest, ListMembersRequest
from cluster.protocol.repair_headers import ScrubLogRequest, VerifyLogRequest
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
class TopicSettings:
    """A topic on one broker name. More queues to read than to write: the others hold messages.

    `durability` None: as the broker is set.
    """

    read_queues: int
    write_queues: int
    perm: int = 6
    durability: Durability | None = None


def _check_queues(number: int) -> None:
    if not 1 <= number <= QUEUES_COUNT_MAX:
        raise InvalidRequest(f"{number} queues; choose 1 to {QUEUES_COUNT_MAX}")


def _is_routed(route: TopicRoute, found: Mapping[str, TopicSettings]) -> bool:
    told = {row.broker_name: (row.read_queue_count, row.write_queue_count) for row in route.queues}
    return all(told.get(name) == (row.read_queues, row.write_queues) for name, row in found.items())


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Broker name → its addresses, leader (id 0) and term, as the name servers know them."""

    brokers: Mapping[str, BrokerData]


class Admin:
    """Made by `Client.admin`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def groups(self) -> GroupAdmin:
        """Consumer groups: who is there, how far behind, moved to another place."""
        return GroupAdmin(self._client)

    async def create_topic(
        self, topic: str, queues: int = 4, *, perm: int = 6, durability: Durability | None = None
    ) -> dict[str, TopicSettings]:
        """Create a topic on every broker name that has none; one that exists stays as it is.

        Args:
            perm: 4 read, 2 write, 6 both.
            durability: when its sends are acknowledged, unless they say so; None: as the broker
                is set.

        Returns what each broker name has now.

        Raises:
            InvalidRequest: the name or the number is impossible.
            ClusterError: a broker refused or could not be reached.
        """
        _check_queues(queues)
        wanted = TopicSettings(queues, queues, perm, durability)
        for name in sorted(await self._client.routes.registered()):
            await self._put(name, topic, wanted, CREATE_ONLY)
        return await self._until_routed(topic)

    async def alter_topic(
        self,
        topic: str,
        queues: int | None = None,
        *,
        perm: int | None = None,
        durability: Durability | None = None,
    ) -> dict[str, TopicSettings]:
        """Change what is given, on every broker name. Returns what each has now.

        With fewer queues, nothing more is sent to those that are left over; they stay readable
        while they hold messages. Once retention has removed these, say it again.

        Raises:
            TopicNotFound: there is nothing to change.
            InvalidRequest: the number is impossible.
            ClusterError: a broker refused or could not be reached.
        """
        if queues is not None:
            _check_queues(queues)
        for name in sorted(await self._client.routes.registered()):
            old = await self._settings(name, topic)
            wanted = TopicSettings(
                old.read_queues if queues is None else queues,
                old.write_queues if queues is None else queues,
                old.perm if perm is None else perm,
                durability,
            )
            await self._put(name, topic, wanted, ALTER_ONLY)
        return await self._until_routed(topic)

    async def _put(self, broker: str, topic: str, wanted: TopicSettings, intent: str) -> None:
        level = wanted.durability
        request = CreateTopicRequest(
            topic,
            DEFAULT_TOPIC,
            wanted.read_queues,
            wanted.write_queues,
            wanted.perm,
            attributes=f"+durability={level.value}" if level else None,
            intent=intent,
        )
        await self._lead(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, encode(request), topic)

    async def _settings(self, broker: str, topic: str) -> TopicSettings:
        request = encode(TopicRequest(topic))
        answer = await self._lead(broker, RequestCode.GET_TOPIC_CONFIG, request, topic)
        row = orjson.loads(answer.body)
        level = row.get("attributes", {}).get("durability")
        return TopicSettings(
            int(row["readQueueNums"]),
            int(row["writeQueueNums"]),
            int(row["perm"]),
            None if level is None else durability_of(level),
        )

    async def _until_routed(self, topic: str) -> dict[str, TopicSettings]:
        """Brokers tell the name servers at once, but not before they answer us."""
        found = {
            name: await self._settings(name, topic)
            for name in await self._client.routes.registered()
        }
        for _ in range(int(self._client.config.request_timeout / ROUTED_POLL_SECONDS)):
            with contextlib.suppress(TopicNotFound):
                if _is_routed(await self._client.routes.refresh(topic), found):
                    return found
            await asyncio.sleep(ROUTED_POLL_SECONDS)
        await self._client.routes.refresh(topic)
        return found

    async def delete_topic(self, topic: str) -> None:
        """Remove a topic from every broker name, and what the name servers still tell of it.

        Its messages stay in the log until retention removes them; nothing reads them any more.

        Raises:
            TopicNotFound: no broker has it.
            ClusterError: a broker refused or could not be reached; say it again.
        """
        brokers = await self._client.routes.registered()
        having = []
        for name in sorted(brokers):
            with contextlib.suppress(TopicNotFound):
                await self._settings(name, topic)
                having.append(name)
        if not having:
            raise TopicNotFound(
                f"the topic {topic} does not exist; dledger topic list shows those that do"
            )
        request = encode(TopicRequest(topic))
        for name in having:
            await self._lead(name, RequestCode.DELETE_TOPIC_IN_BROKER, request)
        with contextlib.suppress(TopicNotFound):
            for _ in range(int(self._client.config.request_timeout / ROUTED_POLL_SECONDS)):
                await self._client.routes.refresh(topic)
                await asyncio.sleep(ROUTED_POLL_SECONDS)

    async def find_messages(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 32,
        begin_ms: int = 0,
        end_ms: int = TIME_MAX_MS,
    ) -> list[ReceivedMessage]:
        """Messages with a key, or with this message id, oldest first.

        Args:
            begin_ms: stored at this time, in ms since 1970, or later; `end_ms` likewise.

        Raises:
            TopicNotFound, NotConnected: nobody can be asked.
            ClusterError: a broker refused.
        """
        return await find_by_key(self._client, topic, key, count_max, begin_ms, end_ms)

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
                await offset_at(self._client, queue, FIRST),
                await offset_at(self._client, queue, LAST),
            )
            for queue in route.read_queues(topic)
        }
        return TopicDescription(topic, route, bounds)

    async def topic_durability(self, topic: str) -> Durability | None:
        """When sends to a topic are acknowledged, as one of its brokers has it (all are told).

        None: as the brokers are set. Raises TopicNotFound, NotConnected.
        """
        route = await self._client.routes.refresh(topic)
        return (await self._settings(route.brokers[0].broker_name, topic)).durability

    async def status(self) -> ClusterStatus:
        """Who leads what. Raises NotConnected."""
        return ClusterStatus(await self._client.routes.cluster())

    async def replicas(self) -> list[dict[str, Any]]:
        """What each replica of each broker name says of itself, and which do not answer.

        `node`, `group`, `address`, `up`, `role` ("unreachable"), and of those that answer `term`,
        `leader`, `first_index`, `last_index`, `committed_index`, `applied_index` (counted from 0),
        `disk`, `disk_detail`, `failed`. Raises NotConnected.
        """
        return await replica_states(self._client)

    async def transfer_leader(self, broker_name: str, node: str | None = None) -> dict[str, str]:
        """Hand the lead of a broker name to `node` (id or client address; None: the best one).

        Returns broker, leader and address. Requests that are under way wait for the new leader.

        Raises:
            InvalidRequest: no such node.
            PlannedMove: it is too far behind or silent; the lead stays where it is.
        """
        request = encode(TransferLeaderRequest(node, broker_name))
        answer = await self._lead(broker_name, RequestCode.TRANSFER_LEADER, request)
        found = decode(TransferLeaderResponse, answer.ext)
        return {"broker": broker_name, "leader": found.node, "address": found.address or ""}

    async def members(self, broker_name: str) -> dict[str, Any]:
        """Who belongs to a group, as its leader has it: members, visitors, how many may fail."""
        return await self._members(
            RequestCode.LIST_MEMBERS, broker_name, ListMembersRequest(broker_name)
        )

    async def change_members(
        self, broker_name: str, kind: str, node: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Add, add-learner, remove or readmit one node; what `members` shows afterwards.

        Committed when this returns; a node that was added or readmitted becomes a voter when it
        has caught up. Dry: what would be.

        Raises:
            InvalidRequest: this change is not possible.
            PlannedMove: not now; another change is under way, or the node has not called yet.
            OutcomeUnknown: leadership changed meanwhile; list the members.
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
        return await ask_leader(self._client, broker_name, topic, code, ext)

    async def verify(self, broker_name: str) -> Comparison:
        """Compare the replicas of a group by their rolling checksums, as each reads its disk.

        Raises NotConnected when one of them cannot be asked.
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
        """Each replica's state of repair; with `start` a pass over its log begins.

        `node`: only that one, by id or client address. Raises NotConnected, InvalidRequest.
        """
        replicas = await self._replicas(broker_name)
        look = ScrubLogRequest(False, broker_name)
        states = {a: await self._one(a, RequestCode.SCRUB_LOG, look) for a in replicas}
        if node is not None:
            states = {a: state for a, state in states.items() if node in (a, state["node"])}
            if not states:
                raise InvalidRequest(
                    f"{node} is no replica of {broker_name}; name one of {replicas}"
                )
        if start:
            begin = ScrubLogRequest(True, broker_name)
            states = {a: await self._one(a, RequestCode.SCRUB_LOG, begin) for a in states}
        return list(states.values())

    async def _replicas(self, broker_name: str) -> list[str]:
        """Client addresses. Raises NotConnected for a name that nobody has registered."""
        known = (await self._client.routes.cluster()).get(broker_name)
        if known is None:
            raise NotConnected(f"no broker {broker_name} is registered; dledger status shows them")
        return sorted(set(known.addresses.values()))

    async def _one(self, address: str, code: int, request: object) -> dict[str, Any]:
        """Ask one replica, for itself."""
        connection = await self._client.pool.get(address)
        answer = await connection.ask(
            code, encode(request), time_limit=self._client.config.request_timeout
        )
        found: dict[str, Any] = orjson.loads(answer.body)
        return found

    async def spread_leaders(self) -> list[dict[str, str]]:
        """Broker names in order, each led by the next node. Raises as `transfer_leader`."""
        brokers = await self._client.routes.cluster()
        moved = []
        for number, name in enumerate(sorted(brokers)):
            replicas = sorted(set(brokers[name].addresses.values()))
            target = replicas[number % len(replicas)]
            moved.append(await self.transfer_leader(name, target))
        return moved
