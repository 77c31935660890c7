"""The three kinds of consumers, and the parts in which they differ.

                  queues       offsets kept by   send-back   locks
    member        its share    the brokers       yes         if ordered
    broadcasting  all          a file            no          no
    reader        all          no one            no          no

RocketMQ calls the first two the message models CLUSTERING and BROADCASTING.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cluster.client.config import ConsumerConfig
from cluster.client.consumer.group_membership import GroupMembership, StandaloneAssignment
from cluster.client.consumer.handlers import SendBack
from cluster.client.consumer.offset_stores import (
    FileOffsetStore,
    GroupOffsetStore,
    NoOffsetStore,
    OffsetStore,
)
from cluster.client.consumer.queue_locks import QueueLocks
from cluster.client.routing.client_instance import ClientInstance
from cluster.errors import InvalidRequest
from cluster.protocol.heartbeat import ALL_TAGS, Subscription
from commitlog.records.names import RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class ConsumerModel:
    """The parts of one consumer that depend on its kind.

    Attributes:
        subscriptions: topic → the filter on its messages.
        assignment: which queues the consumer reads.
        offsets: where it keeps its offsets.
        send_back: gives failed messages back to the group; None without a group.
        locks: locks of ordered queues; None for a consumer that is not ordered.
    """

    subscriptions: dict[str, Subscription]
    assignment: GroupMembership | StandaloneAssignment
    offsets: OffsetStore
    send_back: SendBack | None = None
    locks: QueueLocks | None = None


def reader_model(
    instance: ClientInstance, topics: Sequence[str], config: ConsumerConfig
) -> ConsumerModel:
    """The parts of a consumer without a group.

    Raises:
        InvalidRequest: a setting needs a group.
    """
    if config.ordered or config.broadcast:
        raise InvalidRequest("a reader shares nothing with others; leave ordered and broadcast out")
    wanted = _subscriptions(topics, config)
    return ConsumerModel(wanted, StandaloneAssignment(instance, wanted), NoOffsetStore())


def member_model(
    instance: ClientInstance, topics: Sequence[str], group: str, config: ConsumerConfig
) -> ConsumerModel:
    """The parts of a member of a group.

    Raises:
        InvalidRequest: the positions file of a broadcasting member cannot be used.
    """
    wanted = _subscriptions(topics, config)
    if config.positions_file is not None:
        offsets = FileOffsetStore(config.positions_file)
        return ConsumerModel(wanted, GroupMembership(instance, group, config, wanted), offsets)
    retry = RETRY_PREFIX + group
    wanted[retry] = Subscription.of_tags(retry, ALL_TAGS, _version())
    membership = GroupMembership(instance, group, config, wanted)
    return ConsumerModel(
        wanted,
        membership,
        GroupOffsetStore(instance, group),
        SendBack(instance, group, config.max_attempts),
        QueueLocks(instance, group, membership.client_id) if config.ordered else None,
    )


def _subscriptions(topics: Sequence[str], config: ConsumerConfig) -> dict[str, Subscription]:
    version = _version()
    if config.sql is not None:
        return {topic: Subscription.of_sql(topic, config.sql, version) for topic in topics}
    return {topic: Subscription.of_tags(topic, config.tags, version) for topic in topics}


def _version() -> int:
    """The version of a subscription: a later one replaces an earlier one."""
    return int(time.time() * 1000)
