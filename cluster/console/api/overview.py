"""The cluster at a glance: groups, replicas with their pointers, rates, and alerts.

An alert says what is wrong now, and one thing to try. `dledger doctor` prints the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.errors import ClusterError

LAG_ENTRIES_MAX = 10_000
"""A replica that is further behind its leader is an alert, as in /readyz."""
DISK_USED_MAX = 0.85
"""From here on a disk is an alert; brokers refuse messages above their own water mark."""
HEALTHY_DISKS = ("good", "")

Row = Mapping[str, Any]


async def overview(source: Source, values: Values) -> dict[str, Any]:
    """Everything of the first page."""
    replicas = await source.admin.replicas()
    names = list(dict.fromkeys(str(row["group"]) for row in replicas))
    members = dict(zip(names, await ask_each(_members_of(source), names), strict=True))
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


def _members_of(source: Source) -> Any:
    async def ask(name: str) -> dict[str, Any]:
        """Of the leader; empty without one."""
        try:
            return await source.admin.members(name)
        except ClusterError as error:
            if not error.retriable:
                raise
            return {}

    return ask


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


def leader_of(group: str, replicas: Iterable[Row]) -> Row | None:
    """The leader of a group; of two that say so, the one of the higher term."""
    leaders = [row for row in replicas if row["group"] == group and row["role"] == "leader"]
    return max(leaders, key=lambda row: int(row["term"]), default=None)


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
        "lag": _behind(row, leader),
        "disk": str(row.get("disk", "")),
        "disk_detail": str(row.get("disk_detail", "")),
        "disk_used_ratio": None if used is None else float(used),
        "failed": str(row.get("failed", "")),
        "durability": str(row.get("durability", "")),
    }


def _behind(row: Row, leader: Row | None) -> int | None:
    if leader is None or "last_index" not in row:
        return None
    return max(int(leader["last_index"]) - int(row["last_index"]), 0)


def alerts(replicas: Sequence[Row], members: Mapping[str, Row]) -> Iterator[dict[str, str]]:
    """All that is wrong now, the worst first within each group."""
    for group in dict.fromkeys(str(row["group"]) for row in replicas):
        leader = leader_of(group, replicas)
        if leader is None:
            yield _alert(
                "critical",
                "no-leader",
                group,
                f"no node leads {group}, so nothing can be sent",
                "start the nodes that do not answer (dledger up, or systemctl start dledger)",
            )
        elif (members[group].get("may_fail_now") or 0) < 1 and len(_of(group, replicas)) > 1:
            yield _alert(
                "critical",
                "no-margin",
                group,
                f"{group} has no leader as soon as one more node fails",
                "bring the missing nodes back (dledger member list says which)",
            )
        for row in _of(group, replicas):
            yield from _of_replica(row, leader)


def _of(group: str, replicas: Iterable[Row]) -> list[Row]:
    return [row for row in replicas if row["group"] == group]


def _of_replica(row: Row, leader: Row | None) -> Iterator[dict[str, str]]:
    node = str(row["node"])
    if not row["up"]:
        yield _alert(
            "critical",
            "node-down",
            node,
            f"{node} does not answer at {row['address']}",
            f"start it; dledger logs {node} says how it ended",
        )
        return
    if row.get("failed"):
        yield _alert(
            "critical",
            "node-failed",
            node,
            f"{node} has stopped working: {row['failed']}",
            f"read dledger logs {node}, then start it again",
        )
    if str(row.get("disk", "")) not in HEALTHY_DISKS:
        yield _alert(
            "critical",
            "disk",
            node,
            f"the disk of {node} is {row['disk']}: {row.get('disk_detail') or 'no detail'}",
            "free space there, or look whether the disk is failing (dmesg)",
        )
    elif float(row.get("disk_used_ratio") or 0) >= DISK_USED_MAX:
        yield _alert(
            "warning",
            "disk-filling",
            node,
            f"the disk of {node} is {float(row['disk_used_ratio']):.0%} full",
            "free space, add disk, or keep messages for less time (broker.reserved_hours)",
        )
    behind = _behind(row, leader)
    if behind is not None and behind > LAG_ENTRIES_MAX:
        yield _alert(
            "warning",
            "replica-lag",
            node,
            f"{node} is {behind} entries behind its leader",
            "look at its disk and its link; it catches up by itself when both are well",
        )


def _alert(level: str, kind: str, subject: str, text: str, attempt: str) -> dict[str, str]:
    return {"level": level, "id": kind, "subject": subject, "message": text, "try": attempt}


async def node_status(source: Source, values: Values) -> dict[str, Any]:
    """The node's own snapshot."""
    return dict(source.node_status())
