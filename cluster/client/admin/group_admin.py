"""Consumer groups as an administrator sees them: members, lag, other offsets, deletion.

    groups = client.admin().groups()
    for row in await groups.describe_all():   name, members, lag
    found = await groups.describe("billing")     lag of each queue, in messages and seconds
    await groups.reset("billing", "orders", FIRST)
    await groups.clone("billing", "billing-2")   the second goes on where the first is
    await groups.alter("billing", consume=False)  its members wait until it may read again
    await groups.delete("billing")

It uses RocketMQ's own requests (200, 201, 203, 207, 208, 222, 303, 314, 352), so it works with
stock brokers, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.client.admin.group_settings import (
    GroupChange,
    GroupSettings,
    bean_of,
    change_group,
    settings_of,
)
from cluster.client.admin.topics import delete_from_all, topic_names
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.offset_lookup import check_place, offset_at
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import (
    ConsumerOffline,
    GroupNotFound,
    IllegalOperation,
    InvalidRequest,
    TopicNotFound,
)
from cluster.protocol.admin_headers import (
    CloneOffsetRequest,
    ConsumerGroupRequest,
    ConsumeStatsRequest,
    DeleteGroupRequest,
    GroupTopicRequest,
    ResetOffsetRequest,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY, Frame
from cluster.protocol.headers import encode
from cluster.protocol.json_body import MessageQueue, load_queue_map, read_answer
from commitlog.records.names import DLQ_PREFIX, RETRY_PREFIX, retry_readings


def retry_topics(group: str, topics: Collection[str], groups: Iterable[str]) -> list[str]:
    """The topics of messages that a group is to try again, of those that there are.

    %RETRY%GROUP, and of each topic that it pops %RETRY%GROUP+TOPIC, or %RETRY%GROUP_TOPIC of older
    brokers. One of the last kind that another of `groups` may have is left out (`retry_readings`).
    """
    own = RETRY_PREFIX + group
    known, found = {*groups, group}, frozenset(topics)
    return [
        name
        for name in topics
        if name == own
        or name.startswith(f"{own}+")
        or (
            name.startswith(f"{own}_")
            and {owner for owner, _ in retry_readings(name, known, found)} == {group}
        )
    ]


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far one group is in one queue.

    Attributes:
        next: the queue offset that the group reads next.
        end: the offset behind the queue's last message.
        seconds: how long ago the next message was stored; 0 if no message waits.
        first: the offset of the queue's first message; retention has deleted those before it.
    """

    queue: MessageQueue
    next: int
    end: int
    seconds: float
    first: int = 0

    @property
    def messages(self) -> int:
        """How many messages wait; those deleted before the group read them do not count."""
        return max(self.end - max(self.next, self.first), 0)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One connected consumer.

    Attributes:
        is_shared: another open connection uses the same client id, so both read the same
            queues.
    """

    client_id: str
    address: str
    language: str
    is_shared: bool


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group: its members now, their subscriptions and their offsets.

    Attributes:
        subscriptions: topic → filter expression, as a member sent it.
        is_broadcasting: each member reads everything, so its offsets are kept by the member.
    """

    name: str
    members: Sequence[GroupMember]
    subscriptions: Mapping[str, str]
    is_broadcasting: bool
    queues: Sequence[QueueLag]

    @property
    def messages(self) -> int:
        """How many messages wait in all queues."""
        return sum(row.messages for row in self.queues)

    @property
    def seconds(self) -> float:
        """How many seconds the oldest message has waited."""
        return max((row.seconds for row in self.queues), default=0.0)


class GroupAdmin:
    """Made by `Admin.groups`. All methods raise NotConnected when no broker can be asked."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    async def names(self) -> list[str]:
        """All groups that a broker knows, with RocketMQ's built-in ones."""
        found: set[str] = set()
        for broker in sorted(await self._instance.routes.registered()):
            answer = await self._ask(broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, EMPTY)
            found.update(read_answer(answer.body, "groups").get("subscriptionGroupTable", {}))
        return sorted(found)

    async def describe_all(self) -> Sequence[GroupDescription]:
        """All groups that are connected or have offsets, by name."""
        found = []
        for name in await self.names():
            with contextlib.suppress(GroupNotFound):
                found.append(await self.describe(name))
        return found

    async def describe(self, group: str) -> GroupDescription:
        """One group. Raises GroupNotFound if it is not connected and never committed an offset."""
        members: dict[str, GroupMember] = {}
        subscriptions: dict[str, str] = {}
        queues: list[QueueLag] = []
        broadcasting = False
        for broker in sorted(await self._instance.routes.registered()):
            online = await self._connections(broker, group)
            for row in online.get("connectionSet", ()):
                member = _member(row, online.get("sharedIds", ()))
                members[member.client_id] = member
            for topic, row in online.get("subscriptionTable", {}).items():
                subscriptions[topic] = str(row.get("subString", "*"))
            broadcasting = broadcasting or online.get("messageModel") == "BROADCASTING"
            queues += await self._lags(broker, group)
        if not members and not queues:
            raise GroupNotFound(
                f"the consumer group {group} is not connected and has committed no offset; "
                "dledger group list shows those that have"
            )
        ordered = [members[name] for name in sorted(members)]
        by_queue = sorted(queues, key=lambda row: row.queue)
        return GroupDescription(group, ordered, subscriptions, broadcasting, by_queue)

    async def lag(self, group: str) -> Sequence[QueueLag]:
        """The lag of a group in each queue that it has read, also those of its retry topic."""
        brokers = sorted(await self._instance.routes.registered())
        found = [row for broker in brokers for row in await self._lags(broker, group)]
        return sorted(found, key=lambda row: row.queue)

    async def reset(self, group: str, topic: str, to: int) -> dict[MessageQueue, int]:
        """Let a group go on at another place in all queues of a topic.

        Connected members get a notice and go on there; they finish the messages that they have
        received.

        Args:
            to: FIRST, LAST, or a time in ms since 1970, which stands for the first message stored
                then or later.

        Returns the offset at which each queue goes on.

        Raises:
            ConsumerOffline: no broker knows the group.
            InvalidRequest: the time is negative.
        """
        check_place(to)
        found: dict[MessageQueue, int] = {}
        route = await self._instance.routes.refresh(topic)
        for broker in sorted({queue.broker_name for queue in route.read_queues(topic)}):
            request = encode(ResetOffsetRequest(topic, group, to, is_force=True))
            answer = await self._ask(broker, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, request)
            found |= {q: int(at) for q, at in load_queue_map(answer.body, "offsetTable").items()}
        return found

    async def places(self, topic: str, to: int) -> dict[MessageQueue, int]:
        """The offset of each queue at which `reset` to the same place would let a group go on.

        Raises TopicNotFound, and InvalidRequest for a negative time.
        """
        check_place(to)
        route = await self._instance.routes.refresh(topic)
        return {
            queue: await offset_at(self._instance, queue, to)
            for queue in sorted(route.read_queues(topic))
        }

    async def clone(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> dict[MessageQueue, int]:
        """Let one group go on where another one is, in one topic or in all that it reads.

        The source's retries are its own, and are left out.

        Args:
            dry_run: only tell.

        Returns the offset at which each queue goes on.

        Raises:
            GroupNotFound: the source has no offsets there.
            IllegalOperation: the target has members, which would write their own offsets again.
            InvalidRequest: both are the same group.
        """
        if source == target:
            raise InvalidRequest(f"{source} cannot go on where itself is; name another group")
        rows = [row for row in await self.lag(source) if not _is_own(row.queue.topic)]
        found = {row.queue: row.next for row in rows if topic in (None, row.queue.topic)}
        if not found:
            where = f" of {topic}" if topic else ""
            raise GroupNotFound(
                f"the consumer group {source} has read nothing{where}; "
                "dledger group list shows what each group reads"
            )
        await self._check_no_members(target)
        if dry_run:
            return found
        for broker in sorted({queue.broker_name for queue in found}):
            for name in sorted({queue.topic for queue in found if queue.broker_name == broker}):
                request = encode(CloneOffsetRequest(source, target, name, offline=True))
                await self._ask(broker, RequestCode.CLONE_GROUP_OFFSET, request)
        return {row.queue: row.next for row in await self.lag(target) if row.queue in found}

    async def settings(self, group: str) -> dict[str, GroupSettings]:
        """Broker name → the group's settings there; empty for a group that none knows."""
        found: dict[str, GroupSettings] = {}
        for broker in sorted(await self._instance.routes.registered()):
            with contextlib.suppress(GroupNotFound):
                found[broker] = settings_of(await bean_of(self._instance, broker, group))
        return found

    async def create(
        self,
        group: str,
        *,
        consume: bool | None = None,
        broadcast: bool | None = None,
        retries: int | None = None,
        retry_queues: int | None = None,
    ) -> dict[str, GroupSettings]:
        """Make a group with fields of GroupSettings; one that exists stays as it is.

        Returns the settings on each broker name. Raises InvalidRequest, ClusterError.
        """
        wanted = GroupChange(consume, broadcast, retries, retry_queues)
        return await change_group(self._instance, group, wanted, create=True)

    async def alter(
        self,
        group: str,
        *,
        consume: bool | None = None,
        broadcast: bool | None = None,
        retries: int | None = None,
        retry_queues: int | None = None,
    ) -> dict[str, GroupSettings]:
        """Set fields of GroupSettings; the others stay. Returns them for each broker name.

        Raises:
            GroupNotFound: no broker name has it.
            InvalidRequest: a value is impossible.
            ClusterError: a broker refused or could not be reached; call again.
        """
        wanted = GroupChange(consume, broadcast, retries, retry_queues)
        return await change_group(self._instance, group, wanted, create=False)

    async def delete(self, group: str, *, dead_letters: bool = False) -> None:
        """Forget a group: its settings, its offsets and the messages that it was to try again.

        Args:
            dead_letters: those that it could not handle go, too; else they stay readable in their
                topic.

        Raises:
            GroupNotFound: no broker knows it.
            IllegalOperation: it has members, which would make it anew.

        The group itself goes last, so a deletion that breaks off can be repeated.
        """
        # First the topics: each of them is of a group that exists before the groups are read.
        topics = await topic_names(self._instance)
        groups = await self.names()
        if group not in groups and not await self.lag(group):
            raise GroupNotFound(
                f"no broker knows the consumer group {group}; dledger group list shows groups"
            )
        await self._check_no_members(group)
        retries = retry_topics(group, topics, groups)
        for topic in (*retries, *([DLQ_PREFIX + group] if dead_letters else ())):
            with contextlib.suppress(TopicNotFound):
                await delete_from_all(self._instance, topic)
        for broker in sorted(await self._instance.routes.registered()):
            request = encode(DeleteGroupRequest(group, clean_offset=True))
            await self._ask(broker, RequestCode.DELETE_SUBSCRIPTIONGROUP, request)

    async def _check_no_members(self, group: str) -> None:
        brokers = sorted(await self._instance.routes.registered())
        online = [await self._connections(broker, group) for broker in brokers]
        count = len({row["clientId"] for found in online for row in found.get("connectionSet", ())})
        if count:
            members = "a member" if count == 1 else f"{count} members"
            raise IllegalOperation(
                f"the consumer group {group} has {members} connected; stop its consumers first"
            )

    async def _connections(self, broker: str, group: str) -> dict[str, Any]:
        request = encode(ConsumerGroupRequest(group))
        try:
            answer = await self._ask(broker, RequestCode.GET_CONSUMER_CONNECTION_LIST, request)
        except ConsumerOffline:
            return {}
        found: dict[str, Any] = read_answer(answer.body, "connections")
        return found

    async def _lags(self, broker: str, group: str) -> list[QueueLag]:
        request = encode(ConsumeStatsRequest(group))
        answer = await self._ask(broker, RequestCode.GET_CONSUME_STATS, request)
        rows: dict[MessageQueue, Any] = load_queue_map(answer.body, "offsetTable")
        waiting: dict[MessageQueue, float] = {}
        for topic in sorted({queue.topic for queue in rows}):
            waiting |= await self._waiting(broker, group, topic)
        return [
            QueueLag(
                queue,
                int(row["consumerOffset"]),
                int(row["brokerOffset"]),
                waiting.get(queue, 0.0),
                int(row.get("minOffset", 0)),
            )
            for queue, row in rows.items()
        ]

    async def _waiting(self, broker: str, group: str, topic: str) -> dict[MessageQueue, float]:
        """Seconds that the next message of each queue waits; empty for a deleted topic."""
        request = encode(GroupTopicRequest(group, topic))
        answer = await self._ask(broker, RequestCode.QUERY_CONSUME_TIME_SPAN, request)
        spans = read_answer(answer.body, "time spans").get("consumeTimeSpanSet", ())
        return {
            MessageQueue.from_json(span["messageQueue"]): max(int(span["delayTime"]), 0) / 1000
            for span in spans
        }

    async def _ask(self, broker: str, code: int, ext: Mapping[str, str]) -> Frame:
        return await ask_leader(self._instance, broker, DEFAULT_TOPIC, code, ext)


def _is_own(topic: str) -> bool:
    """Is it a topic of one group alone: its retries or its dead letters?"""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _member(row: Mapping[str, Any], shared: Sequence[str]) -> GroupMember:
    name = str(row["clientId"])
    return GroupMember(name, str(row["clientAddr"]), str(row["language"]), name in shared)
