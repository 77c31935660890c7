"""The cluster at a glance: groups, replicas with their pointers, rates, and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.health.alerts import Row, alerts, behind_leader, leader_of
from cluster.health.members import groups_of, members_where_led


async def overview(source: Source, values: Values) -> dict[str, Any]:
    """Everything of the first page."""
    replicas = await source.admin.replicas()
    names = groups_of(replicas)
    told = await ask_each(partial(members_where_led, source.admin), names)
    members = dict(zip(names, told, strict=True))
    topics = await source.admin.list_topics()
    groups = [_group(name, replicas, members[name]) for name in names]
    return {
        "cluster": str(source.node_status().get("cluster_name", "")),
        "asked_node": str(source.node_status().get("node_id", "")),
        "groups": groups,
        "replicas": [_replica(row, replicas) for row in replicas],
        "topic_count": len(topics),
        "messages_in_per_second": sum(group["messages_in_per_second"] for group in groups),
        "messages_out_per_second": sum(group["messages_out_per_second"] for group in groups),
        "alerts": list(alerts(replicas, members)),
    }


def _group(name: str, replicas: Sequence[Row], members: Row) -> dict[str, Any]:
    leader = leader_of(name, replicas)
    return {
        "name": name,
        "leader": str(leader["node"]) if leader else None,
        "term": int(leader["term"]) if leader else None,
        "members": len(members.get("members", ())),
        "may_fail_now": members.get("may_fail_now"),
        "messages_in_per_second": float(leader.get("messages_in_per_second", 0)) if leader else 0.0,
        "messages_out_per_second": float(leader.get("messages_out_per_second", 0))
        if leader
        else 0.0,
    }


def _replica(row: Row, replicas: Sequence[Row]) -> dict[str, Any]:
    leader = leader_of(row["group"], replicas)
    used = row.get("disk_used_ratio")
    return {
        "node": str(row["node"]),
        "group": str(row["group"]),
        "address": str(row["address"]),
        "up": bool(row["up"]),
        "role": str(row["role"]),
        "term": row.get("term"),
        "leader": row.get("leader"),
        "first_index": row.get("first_index"),
        "last_index": row.get("last_index"),
        "flushed_index": row.get("flushed_index"),
        "committed_index": row.get("committed_index"),
        "applied_index": row.get("applied_index"),
        "dispatched_index": row.get("dispatched_index"),
        "lag": behind_leader(row, leader),
        "disk": str(row.get("disk", "")),
        "disk_detail": str(row.get("disk_detail", "")),
        "disk_used_ratio": None if used is None else float(used),
        "failed": str(row.get("failed", "")),
        "durability": str(row.get("durability", "")),
    }


async def node_status(source: Source, values: Values) -> dict[str, Any]:
    """The node's own snapshot."""
    return dict(source.node_status())
