"""What every replica says of itself (request 28), all of them asked at the same time.

Who is asked: the members of each group, as its leader has them, so that one that is down is in the
list, too; while nobody leads, whoever is registered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from cluster.client.repeating import ask_leader
from cluster.client.routes import DEFAULT_TOPIC
from cluster.errors import ClusterError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import encode
from cluster.protocol.member_headers import ListMembersRequest

if TYPE_CHECKING:
    from cluster.client.client import Client
    from cluster.protocol.route import BrokerData

PREFIX = "dledger."
"""Of our own figures among RocketMQ's."""

NUMBERS = ("term", "first_index", "last_index", "committed_index", "applied_index")
UNREACHABLE: dict[str, Any] = {"role": "unreachable", "up": False}


async def replica_states(client: Client) -> list[dict[str, Any]]:
    """One row for each replica, ordered by group and node: see `Admin.replicas`."""
    brokers = await client.routes.registered()
    groups = await asyncio.gather(*(_group(client, brokers[name]) for name in sorted(brokers)))
    return [row for group in groups for row in group]


async def _group(client: Client, broker: BrokerData) -> list[dict[str, Any]]:
    members = await _members(client, broker.broker_name)
    names = {row["service"]: row["node"] for row in members if row["service"]}
    names = names or dict.fromkeys(broker.addresses.values(), "")
    rows = await asyncio.gather(*(_one(client, address) for address in names))
    for row, (address, node) in zip(rows, names.items(), strict=True):
        row |= {"group": broker.broker_name, "address": address}
        row["node"] = row.get("node") or node or address
    return sorted(rows, key=lambda row: str(row["node"]))


async def _members(client: Client, broker_name: str) -> list[dict[str, Any]]:
    """Rows of 31012; none while nobody leads."""
    request = encode(ListMembersRequest(broker_name))
    try:
        answer = await ask_leader(
            client, broker_name, DEFAULT_TOPIC, RequestCode.LIST_MEMBERS, request
        )
    except ClusterError as error:
        if not error.retriable:
            raise
        return []
    found: list[dict[str, Any]] = orjson.loads(answer.body)["members"]
    return found


async def _one(client: Client, address: str) -> dict[str, Any]:
    try:
        connection = await client.pool.get(address)
        answer = await connection.ask(
            RequestCode.GET_BROKER_RUNTIME_INFO, EMPTY, time_limit=client.config.request_timeout
        )
    except ClusterError as error:
        if not error.retriable:
            raise
        return dict(UNREACHABLE)
    table: dict[str, str] = orjson.loads(answer.body)["table"]
    row: dict[str, Any] = {
        name.removeprefix(PREFIX): value for name, value in table.items() if name.startswith(PREFIX)
    }
    return {"role": "unknown", **row, **{n: int(row[n]) for n in NUMBERS if n in row}, "up": True}
