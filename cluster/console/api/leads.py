"""Members of each Raft group as its leader has them, and the moves of its lead."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.console.api.changes import command
from cluster.console.api.failures import ApiError
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.errors import PlannedMove
from cluster.health.alerts import Row, leader_of
from cluster.health.members import groups_of, members_where_led


async def list_members(source: Source, values: Values) -> dict[str, Any]:
    """Every group, with its members and how many of them may fail."""
    replicas = await source.admin.replicas()
    names = groups_of(replicas)
    told = await ask_each(partial(members_where_led, source.admin), names)
    groups = [_group(name, replicas, found) for name, found in zip(names, told, strict=True)]
    return {"groups": groups, "command": command("member", "list")}


def _group(name: str, replicas: list[dict[str, Any]], found: Row) -> dict[str, Any]:
    leader = leader_of(name, replicas)
    return {
        "name": name,
        "leader": str(leader["node"]) if leader else None,
        "term": int(leader["term"]) if leader else None,
        "majority": found.get("majority"),
        "may_fail": found.get("may_fail"),
        "may_fail_now": found.get("may_fail_now"),
        "members": [
            {
                "node": str(row["node"]),
                "standing": str(row["standing"]),
                "address": str(row["address"]),
                "service": str(row["service"]),
                "behind": row["behind"],
                "silent_seconds": row["silent_seconds"],
                "uncounted": str(found.get("uncounted", {}).get(row["node"], "")),
            }
            for row in found.get("members", ())
        ],
        "visitors": [
            {"node": str(row["node"]), "address": str(row["address"])}
            for row in found.get("visitors", ())
        ],
    }


async def move_lead(source: Source, values: Values) -> dict[str, Any]:
    """Hand the lead of a broker name over.

    Raises InvalidRequest, ApiError (404; 409 while no node can take it: the lead stays).
    """
    broker, node = values["broker"], values["node"]
    if broker not in (names := groups_of(await source.admin.replicas())):
        known = ", ".join(names) or "none"
        text = f"the broker name {broker} is not there; name one of these: {known}"
        raise ApiError(404, "broker-not-found", text)
    try:
        done = await source.admin.transfer_leader(broker, node)
    except PlannedMove as stays:
        raise ApiError(409, "planned-move", str(stays), retriable=True) from None
    words = (node,) if node else ()
    return {**done, "command": command("leader", "move", broker, *words)}


async def list_lead_moves(source: Source, values: Values) -> dict[str, Any]:
    """The leaders of every group, the newest first."""
    groups = [
        {
            "name": one.group,
            "since_ms": one.since_ms,
            "left_out": one.left_out,
            "moves": one.rows[::-1][: values["limit"]],
        }
        for one in await source.admin.lead_moves()
    ]
    return {"groups": groups, "command": command("cluster", "leads")}
