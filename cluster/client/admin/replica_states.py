"""The state of every replica from its own answer to request 28; all are asked at the same time.

The list of replicas is the leader's list of members, so a replica that is down has a row, too.
Without a leader it is the list of registered replicas.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import ClusterError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.headers import encode
from cluster.protocol.replica_headers import ListMembersRequest
from cluster.protocol.route import BrokerData

PREFIX = "dledger."
"""Begins the names of our own figures among RocketMQ's."""

NUMBERS = (
    "term",
    "first_index",
    "last_index",
    "flushed_index",
    "committed_index",
    "applied_index",
    "dispatched_index",
    "certificate_ends_at",
)
RATES = ("disk_used_ratio", "messages_in_per_second", "messages_out_per_second")
UNREACHABLE: dict[str, Any] = {"role": "unreachable", "up": False}


async def replica_states(instance: ClientInstance) -> list[dict[str, Any]]:
    """One row for each replica, ordered by group and node: see `Admin.replicas`."""
    brokers = await instance.routes.registered()
    groups = await asyncio.gather(*(_group(instance, brokers[name]) for name in sorted(brokers)))
    return [row for group in groups for row in group]


async def _group(instance: ClientInstance, broker: BrokerData) -> list[dict[str, Any]]:
    members = await _members(instance, broker.broker_name)
    names = {row["service"]: row["node"] for row in members if row["service"]}
    names = names or dict.fromkeys(broker.addresses.values(), "")
    rows = await asyncio.gather(*(_one(instance, address) for address in names))
    for row, (address, node) in zip(rows, names.items(), strict=True):
        row |= {"group": broker.broker_name, "address": address}
        row["node"] = row.get("node") or node or address
    return sorted(rows, key=lambda row: str(row["node"]))


async def _members(instance: ClientInstance, broker_name: str) -> list[dict[str, Any]]:
    """Rows of request 31012; none without a leader."""
    request = encode(ListMembersRequest(broker_name))
    try:
        answer = await ask_leader(
            instance, broker_name, DEFAULT_TOPIC, RequestCode.LIST_MEMBERS, request
        )
    except ClusterError as error:
        if not error.retriable:
            raise
        return []
    found: list[dict[str, Any]] = orjson.loads(answer.body)["members"]
    return found


async def _one(instance: ClientInstance, address: str) -> dict[str, Any]:
    try:
        connection = await instance.pool.get(address)
        asked = time.time()
        answer = await connection.ask(
            RequestCode.GET_BROKER_RUNTIME_INFO, EMPTY, time_limit=instance.config.request_timeout
        )
    except ClusterError as error:
        if not error.retriable:
            raise
        return dict(UNREACHABLE)
    answered = time.time()
    table: dict[str, str] = orjson.loads(answer.body)["table"]
    row: dict[str, Any] = {
        name.removeprefix(PREFIX): value for name, value in table.items() if name.startswith(PREFIX)
    }
    row |= {name: int(row[name]) for name in NUMBERS if name in row}
    row |= {name: float(row[name]) for name in RATES if name in row}
    if "time_ms" in row:
        row["clock_ahead_seconds"] = int(row.pop("time_ms")) / 1000 - (asked + answered) / 2
        row["clock_doubt_seconds"] = (answered - asked) / 2
    return {"role": "unknown", **row, "up": True}
