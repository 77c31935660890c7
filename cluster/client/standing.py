"""What a consumer is to the brokers: a member that shares queues, one that broadcasts, or a reader.

              queues    positions   retries   locks
member        its share brokers     yes       if ordered
broadcasting  all       a file      no        no
reader        all       nowhere     no        no
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.client.config import ConsumerConfig
from cluster.client.membership import Alone, Membership
from cluster.client.positions import FilePositions, GroupPositions, NoPositions, Positions
from cluster.client.queue_locks import QueueLocks
from cluster.client.returns import Returns
from cluster.errors import InvalidRequest
from cluster.protocol.heartbeat import ALL_TAGS, Subscription
from commitlog.names import RETRY_PREFIX

if TYPE_CHECKING:
    from cluster.client.consumer import Consumer


@dataclass(frozen=True, slots=True)
class Standing:
    """Parts that differ. `subscriptions`: topic → what is wanted of it."""

    subscriptions: dict[str, Subscription]
    membership: Membership | Alone
    positions: Positions
    returns: Returns | None = None
    locks: QueueLocks | None = None


def standing_of_reader(consumer: Consumer, topics: Sequence[str]) -> Standing:
    """Without a group. Raises InvalidRequest for settings that need one."""
    if consumer.config.ordered or consumer.config.broadcast:
        raise InvalidRequest("a reader shares nothing with others; leave ordered and broadcast out")
    wanted = _subscriptions(topics, consumer.config)
    return Standing(wanted, Alone(consumer, wanted), NoPositions())


def standing_of_member(consumer: Consumer, topics: Sequence[str]) -> Standing:
    """Of a group. Raises InvalidRequest: the file of positions cannot be used."""
    client, group, config = consumer.client, consumer.group, consumer.config
    wanted = _subscriptions(topics, config)
    if config.positions_file is not None:
        positions = FilePositions(config.positions_file)
        return Standing(wanted, Membership(consumer, wanted), positions)
    retry = RETRY_PREFIX + group
    wanted[retry] = Subscription.of_tags(retry, ALL_TAGS, _version())
    membership = Membership(consumer, wanted)
    return Standing(
        wanted,
        membership,
        GroupPositions(client, group),
        Returns(client, group, config.max_attempts),
        QueueLocks(client, group, membership.client_id) if config.ordered else None,
    )


def _subscriptions(topics: Sequence[str], config: ConsumerConfig) -> dict[str, Subscription]:
    version = _version()
    if config.sql is not None:
        return {topic: Subscription.of_sql(topic, config.sql, version) for topic in topics}
    return {topic: Subscription.of_tags(topic, config.tags, version) for topic in topics}


def _version() -> int:
    """Of a subscription: a later one replaces an earlier one."""
    return int(time.time() * 1000)
