"""Consumer groups: lag in messages and seconds, members, and which member reads which queue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cluster.client.admin.group_admin import GroupDescription, QueueLag
from cluster.console.api.paging import page_of_names
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.core.assignment import average
from cluster.errors import GroupNotFound
from cluster.protocol.json_body import MessageQueue
from commitlog.records.names import DLQ_PREFIX


async def list_groups(source: Source, values: Values) -> dict[str, Any]:
    """A page of groups, by name."""
    names = await source.admin.groups().names()
    page, cursor = page_of_names(names, values)
    dead = set(await source.admin.list_topics())

    async def row(name: str) -> dict[str, Any]:
        try:
            found = await source.admin.groups().describe(name)
        except GroupNotFound:  # it exists, and has neither a member nor an offset
            found = GroupDescription(name, (), {}, False, ())
        topics = found.subscriptions or {queue.queue.topic for queue in found.queues}
        return {
            "name": name,
            "members": len(found.members),
            "lag": found.messages,
            "lag_seconds": found.seconds,
            "topics": sorted(topics),
            "is_broadcasting": found.is_broadcasting,
            "has_dead_letters": DLQ_PREFIX + name in dead,
        }

    rows = await ask_each(row, page)
    return {"groups": rows, "total": len(names), "cursor": cursor}


async def describe_group(source: Source, values: Values) -> dict[str, Any]:
    """One group. Raises GroupNotFound."""
    name = values["group"]
    settings = await source.admin.groups().settings(name)
    try:
        found = await source.admin.groups().describe(name)
    except GroupNotFound:
        if not settings:
            raise
        found = GroupDescription(name, (), {}, False, ())  # made, and not used yet
    assigned = assignment(found)
    return {
        "name": name,
        "is_broadcasting": found.is_broadcasting,
        "lag": found.messages,
        "lag_seconds": found.seconds,
        "subscriptions": dict(found.subscriptions),
        "settings": [{"broker": broker, **asdict(row)} for broker, row in settings.items()],
        "members": [
            {
                "client_id": member.client_id,
                "address": member.address,
                "language": member.language,
                "is_shared": member.is_shared,
            }
            for member in found.members
        ],
        "queues": [
            {
                "topic": row.queue.topic,
                "broker": row.queue.broker_name,
                "queue": row.queue.queue_id,
                "next": row.next,
                "end": row.end,
                "lag": row.messages,
                "lag_seconds": row.seconds,
                "assigned_to": assigned.get(row.queue),
            }
            for row in found.queues
        ],
    }


def assignment(found: GroupDescription) -> dict[MessageQueue, str]:
    """Queue → the member that reads it by the default strategy (AllocateMessageQueueAveragely).

    Brokers are not told of assignments; members that use another strategy share queues otherwise.
    """
    if found.is_broadcasting:
        return {}
    members = [member.client_id for member in found.members]
    by_topic: dict[str, list[QueueLag]] = {}
    for row in found.queues:
        by_topic.setdefault(row.queue.topic, []).append(row)
    shared: dict[MessageQueue, str] = {}
    for rows in by_topic.values():
        queues = sorted(row.queue for row in rows)
        for number, member in enumerate(sorted(members)):
            shared |= {queues[n]: member for n in average(number, len(members), len(queues))}
    return shared
