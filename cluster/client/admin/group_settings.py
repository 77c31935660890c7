"""Settings of a consumer group: read on one broker name, changed on all.

Requests 200 and 352 of RocketMQ. The bean is sent back as it was read, with the changed fields
only, so that what another tool has set stays, and with a digest of it, so that a change
of another administrator in between is refused by the broker, and made again on top of that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import GroupNotFound, IllegalOperation
from cluster.protocol.admin_headers import GroupConfigRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import ABSENT, dump, read_answer, row_digest

CHANGE_ATTEMPTS = 20
CHANGE_PAUSE_SECONDS = 0.05
"""While other administrators change the same settings."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Rights of a group, and how often it tries again.

    Attributes:
        consume: its members may read; False stops them until it is True again.
        broadcast: members may read as broadcasting ones, each everything.
        retries: how often a message comes back before it is a dead letter; -1 as RocketMQ's 16.
        retry_queues: queues of its retry topic, when that is made.
    """

    consume: bool
    broadcast: bool
    retries: int
    retry_queues: int


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Fields of GroupSettings that are to change; None stays."""

    consume: bool | None = None
    broadcast: bool | None = None
    retries: int | None = None
    retry_queues: int | None = None

    def fields(self) -> dict[str, bool | int]:
        """The bean's names → values of those that are given."""
        found = {
            "consumeEnable": self.consume,
            "consumeBroadcastEnable": self.broadcast,
            "retryMaxTimes": self.retries,
            "retryQueueNums": self.retry_queues,
        }
        return {name: value for name, value in found.items() if value is not None}


async def bean_of(instance: ClientInstance, broker: str, group: str) -> dict[str, Any]:
    """All that one broker name has of a group. Raises GroupNotFound, ClusterError."""
    request = encode(GroupConfigRequest(group))
    code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    answer = await ask_leader(instance, broker, DEFAULT_TOPIC, code, request)
    return dict(read_answer(answer.body, "settings of a group"))


def settings_of(bean: Mapping[str, Any]) -> GroupSettings:
    """Settings of a bean, with RocketMQ's defaults for fields that are missing."""
    return GroupSettings(
        bool(bean.get("consumeEnable", True)),
        bool(bean.get("consumeBroadcastEnable", True)),
        int(bean.get("retryMaxTimes", 16)),
        int(bean.get("retryQueueNums", 1)),
    )


async def change_group(
    instance: ClientInstance, group: str, wanted: GroupChange, *, create: bool
) -> dict[str, GroupSettings]:
    """Make the given changes on each broker name; make the group where it lacks.

    A group that exists keeps what is not given; with `create`, it stays as it is altogether.
    Returns the settings on each broker name.

    Raises:
        GroupNotFound: no broker name has it, and `create` is False.
        IllegalOperation: others changed it again and again meanwhile.
        ClusterError: a broker refused or could not be reached; call again.
    """
    brokers = sorted(await instance.routes.registered())
    beans = {broker: await _found(instance, broker, group) for broker in brokers}
    known = next((bean for bean in beans.values() if bean is not None), None)
    if known is None and not create:
        raise GroupNotFound(
            f"the consumer group {group} does not exist; dledger group list shows those that do"
        )
    for broker, bean in beans.items():
        await _change_on(instance, broker, group, bean, known, wanted, create=create)
    return {name: settings_of(await bean_of(instance, name, group)) for name in brokers}


async def _found(instance: ClientInstance, broker: str, group: str) -> dict[str, Any] | None:
    try:
        return await bean_of(instance, broker, group)
    except GroupNotFound:
        return None


async def _change_on(
    instance: ClientInstance,
    broker: str,
    group: str,
    bean: dict[str, Any] | None,
    known: dict[str, Any] | None,
    wanted: GroupChange,
    *,
    create: bool,
) -> None:
    """On one broker name; read and changed again while others change it meanwhile."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    for again in range(CHANGE_ATTEMPTS - 1, -1, -1):
        if bean is not None and create:
            return
        body = dump({"groupName": group, **(bean or known or {}), **wanted.fields()})
        expected = {"expected": ABSENT if bean is None else row_digest(bean)}
        try:
            await ask_leader(instance, broker, DEFAULT_TOPIC, code, expected, body=body)
            return
        except IllegalOperation:
            if not again:
                raise
        await asyncio.sleep(CHANGE_PAUSE_SECONDS)
        bean = await _found(instance, broker, group)
