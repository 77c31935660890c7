"""Changes that the API makes: topics, and where a group goes on.

Each answer has the `dledger` command that does the same. The admin HTTP logs each as `audit:`.
"""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any

from cluster.client.routing.offset_lookup import FIRST, LAST, offset_at
from cluster.console.api.failures import ApiError
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.console.api.topics import kind_of
from cluster.protocol.json_body import MessageQueue

PLACES = {"first": FIRST, "last": LAST}


def command(*words: object) -> str:
    """A `dledger` command as a shell reads it."""
    return shlex.join(["dledger", *map(str, words)])


async def create_topic(source: Source, values: Values) -> dict[str, Any]:
    """Create a topic; one that exists stays as it is."""
    name, queues = values["name"], values["queues"]
    await source.admin.create_topic(name, queues)
    return {"command": command("topic", "create", name, "-q", queues)}


async def alter_topic(source: Source, values: Values) -> dict[str, Any]:
    """Change the number of queues. Raises TopicNotFound."""
    name, queues = values["topic"], values["queues"]
    await _check_kind(source, name)
    await source.admin.alter_topic(name, queues)
    return {"command": command("topic", "alter", name, "-q", queues)}


async def delete_topic(source: Source, values: Values) -> dict[str, Any]:
    """Remove a topic from all brokers. Raises TopicNotFound."""
    await _check_kind(source, values["topic"])
    await source.admin.delete_topic(values["topic"])
    return {"command": command("topic", "delete", values["topic"])}


async def _check_kind(source: Source, topic: str) -> None:
    """Raises ApiError (403) for a topic of the system's own."""
    if kind_of(topic, await source.client.instance.routes.registered()) == "system":
        raise ApiError(403, "system-topic", f"{topic} is the system's own topic; name another one")


async def reset_group(source: Source, values: Values) -> dict[str, Any]:
    """Let a group go on elsewhere, or show the offsets it would go on at.

    Raises TopicNotFound, GroupNotFound, ApiError (400).
    """
    group, topic, place = values["group"], values["topic"], place_of(values["to"])
    found = await source.admin.groups().describe(group)
    now = {row.queue: row.next for row in found.queues if row.queue.topic == topic}
    if values["dry_run"]:
        route = await source.client.instance.routes.refresh(topic)

        async def then(queue: MessageQueue) -> int:
            return await offset_at(source.client.instance, queue, place)

        queues = sorted(route.read_queues(topic))
        moved = dict(zip(queues, await ask_each(then, queues), strict=True))
    else:
        moved = await source.admin.groups().reset(group, topic, place)
    rows = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "next": now.get(queue),
            "then": offset,
        }
        for queue, offset in sorted(moved.items())
    ]
    words = ("group", "reset", group, "--topic", topic, "--to", values["to"])
    return {"dry_run": values["dry_run"], "queues": rows, "command": command(*words)}


def place_of(text: str) -> int:
    """FIRST, LAST, or ms since 1970, of "first", "last" or an ISO 8601 time. Raises ApiError."""
    if text in PLACES:
        return PLACES[text]
    try:
        moment = int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        moment = 0
    if moment < 1:
        raise ApiError(
            400, "bad-value", f"to is {text!r:.60}; give first, last, or 2026-01-31T12:00:00+00:00"
        )
    return moment
