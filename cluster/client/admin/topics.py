"""Topics as an administrator sees them: settings on each broker name, made, changed and deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.client.admin.group_settings import CHANGE_ATTEMPTS, CHANGE_PAUSE_SECONDS
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import IllegalOperation, InvalidRequest, TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.durability import Durability, durability_of
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import (
    ALTER_ONLY,
    CREATE_ONLY,
    CreateTopicRequest,
    TopicRequest,
    encode,
)
from cluster.protocol.json_body import MessageQueue, row_digest
from cluster.protocol.route import TopicRoute
from cluster.protocol.topics import QueueBounds, decode_topic_list
from commitlog.records.names import is_pop_retry

QUEUES_COUNT_MAX = 4096
ROUTED_POLL_SECONDS = 0.02


PERMS = {"read": 4, "write": 2, "read-write": 6}
"""What clients may do with a topic → RocketMQ's bits."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic: its route, and the first and the next queue offset of each queue."""

    topic: str
    route: TopicRoute
    bounds: Mapping[MessageQueue, QueueBounds]

    @property
    def message_count(self) -> int:
        """How many messages can be read."""
        return sum(row.max_offset - row.min_offset for row in self.bounds.values())


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's settings on one broker name.

    Attributes:
        read_queues: how many queues can be read; more than `write_queues` while the others still
            hold messages.
        write_queues: how many queues get new messages.
        perm: 4 read, 2 write, 6 both.
        durability: when a send is acknowledged; None: as the broker is set.
    """

    read_queues: int
    write_queues: int
    perm: int = 6
    durability: Durability | None = None


def check_queue_count(number: int) -> None:
    """Refuse an impossible number of queues. Raises InvalidRequest."""
    if not 1 <= number <= QUEUES_COUNT_MAX:
        raise InvalidRequest(f"{number} queues; choose 1 to {QUEUES_COUNT_MAX}")


async def topic_settings(instance: ClientInstance, broker: str, topic: str) -> TopicSettings:
    """A topic's settings on one broker name. Raises TopicNotFound, ClusterError."""
    return _settings_of(await _row_of(instance, broker, topic))


async def _row_of(instance: ClientInstance, broker: str, topic: str) -> dict[str, Any]:
    request = encode(TopicRequest(topic))
    code = RequestCode.GET_TOPIC_CONFIG
    answer = await ask_leader(instance, broker, topic, code, request)
    found: dict[str, Any] = orjson.loads(answer.body)
    return found


def _settings_of(row: Mapping[str, Any]) -> TopicSettings:
    level = row.get("attributes", {}).get("durability")
    return TopicSettings(
        int(row["readQueueNums"]),
        int(row["writeQueueNums"]),
        int(row["perm"]),
        None if level is None else durability_of(level),
    )


async def create_on(
    instance: ClientInstance, broker: str, topic: str, wanted: TopicSettings
) -> None:
    """Create a topic on one broker name; an existing one stays as it is. Raises ClusterError."""
    await _put(instance, broker, topic, wanted, CREATE_ONLY)


async def alter_on(
    instance: ClientInstance,
    broker: str,
    topic: str,
    wanted: Callable[[TopicSettings], TopicSettings],
) -> None:
    """Change an existing topic on one broker name: `wanted` of the settings that it has.

    They are read and changed again while other administrators change them meanwhile. Raises
    TopicNotFound, IllegalOperation when that does not end, ClusterError.
    """
    for again in range(CHANGE_ATTEMPTS - 1, -1, -1):
        row = await _row_of(instance, broker, topic)
        try:
            changed = wanted(_settings_of(row))
            await _put(instance, broker, topic, changed, ALTER_ONLY, row_digest(row))
            return
        except IllegalOperation:
            if not again:
                raise
        await asyncio.sleep(CHANGE_PAUSE_SECONDS)


async def until_routed(instance: ClientInstance, topic: str) -> dict[str, TopicSettings]:
    """Wait until the name servers have the topic's settings, `request_timeout` seconds at most.

    A broker registers a change at once, but after it has answered the request. Returns the settings
    on each broker name.
    """
    found = {
        name: await topic_settings(instance, name, topic)
        for name in await instance.routes.registered()
    }
    for _ in range(_polls_max(instance)):
        with contextlib.suppress(TopicNotFound):
            if _is_routed(await instance.routes.registered_route(topic), found):
                return found
        await asyncio.sleep(ROUTED_POLL_SECONDS)
    await instance.routes.registered_route(topic)
    return found


async def topic_names(instance: ClientInstance) -> list[str]:
    """See `Admin.list_topics`."""
    answer = await instance.routes.ask_nameserver(
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, EMPTY
    )
    return decode_topic_list(answer.body)


async def delete_from_all(instance: ClientInstance, topic: str) -> None:
    """See `Admin.delete_topic`."""
    brokers = await instance.routes.registered()
    # Brokers of earlier releases find a name with a "+" illegal, unless they have that topic.
    missing = (TopicNotFound, *((InvalidRequest,) if is_pop_retry(topic) else ()))
    having = []
    for name in sorted(brokers):
        with contextlib.suppress(*missing):
            await topic_settings(instance, name, topic)
            having.append(name)
    if not having:
        raise TopicNotFound(
            f"the topic {topic} does not exist; dledger topic list shows those that do"
        )
    request = encode(TopicRequest(topic))
    for name in having:
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        await ask_leader(instance, name, DEFAULT_TOPIC, code, request)
    with contextlib.suppress(TopicNotFound):
        for _ in range(_polls_max(instance)):
            await instance.routes.registered_route(topic)
            await asyncio.sleep(ROUTED_POLL_SECONDS)


async def _put(
    instance: ClientInstance,
    broker: str,
    topic: str,
    wanted: TopicSettings,
    intent: str,
    expected: str | None = None,
) -> None:
    level = wanted.durability
    request = CreateTopicRequest(
        topic,
        DEFAULT_TOPIC,
        wanted.read_queues,
        wanted.write_queues,
        wanted.perm,
        attributes=f"+durability={level.value}" if level else None,
        intent=intent,
        expected=expected,
    )
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    await ask_leader(instance, broker, topic, code, encode(request))


def _is_routed(route: TopicRoute, found: Mapping[str, TopicSettings]) -> bool:
    routed = {
        row.broker_name: (row.read_queue_count, row.write_queue_count) for row in route.queues
    }
    return all(
        routed.get(name) == (row.read_queues, row.write_queues) for name, row in found.items()
    )


def _polls_max(instance: ClientInstance) -> int:
    return int(instance.config.request_timeout / ROUTED_POLL_SECONDS)
