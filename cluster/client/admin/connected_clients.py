"""Producers and consumers that are connected, of all groups, as the brokers have them."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.client.admin.group_admin import GroupAdmin
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.json_body import read_answer


@dataclass(frozen=True, slots=True)
class ConnectedProducer:
    """One producer, as one broker name has it.

    Attributes:
        heard_ms: when its last heartbeat came, in ms since 1970.
    """

    group: str
    broker: str
    client_id: str
    address: str
    language: str
    version: int
    heard_ms: int


@dataclass(frozen=True, slots=True)
class ConnectedConsumer:
    """One member of a consumer group."""

    group: str
    client_id: str
    address: str
    language: str


async def connected_producers(instance: ClientInstance) -> list[ConnectedProducer]:
    """By group, then client id. Raises NotConnected, ClusterError."""
    found = []
    for broker in sorted(await instance.routes.registered()):
        code = RequestCode.GET_ALL_PRODUCER_INFO
        answer = await ask_leader(instance, broker, DEFAULT_TOPIC, code, EMPTY)
        for group, rows in read_answer(answer.body, "producers").get("data", {}).items():
            found += [
                ConnectedProducer(
                    str(group),
                    broker,
                    str(row["clientId"]),
                    str(row["remoteIP"]),
                    str(row["language"]),
                    int(row["version"]),
                    int(row["lastUpdateTimestamp"]),
                )
                for row in rows
            ]
    return sorted(found, key=lambda row: (row.group, row.client_id, row.broker))


async def connected_consumers(groups: GroupAdmin) -> list[ConnectedConsumer]:
    """By group, then client id. Raises NotConnected, ClusterError."""
    return [
        ConnectedConsumer(found.name, member.client_id, member.address, member.language)
        for found in await groups.describe_all()
        for member in found.members
    ]
