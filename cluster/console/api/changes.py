"""Changes that the API makes: topics and groups, where groups go on, and their end.

Each answer has the `dledger` command that does the same. The admin HTTP logs each as `audit:`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from cluster.client.admin.group_settings import GroupSettings
from cluster.client.admin.topics import PERMS
from cluster.client.routing.offset_lookup import FIRST, LAST
from cluster.console.api.failures import ApiError
from cluster.console.api.source import Source
from cluster.console.api.table import Values
from cluster.console.api.topics import kind_of
from cluster.protocol.durability import Durability, durability_of
from cluster.protocol.json_body import MessageQueue

PLACES = {"first": FIRST, "last": LAST}
GROUP_FIELDS = tuple(field.name for field in fields(GroupSettings))


def command(*words: object) -> str:
    """A `dledger` command as a shell reads it."""
    return shlex.join(["dledger", *map(str, words)])


def iso_time(at_ms: int) -> str:
    """A time as commands take it; one that no calendar has stays a number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


async def create_topic(source: Source, values: Values) -> dict[str, Any]:
    """Create a topic; one that exists stays as it is."""
    name, queues, perm = values["name"], values["queues"], values["perm"]
    level = values["durability"]
    await source.admin.create_topic(
        name, queues, perm=PERMS[perm or "read-write"], durability=_level(level)
    )
    words = _options(durability=level, perm=perm)
    return {"command": command("topic", "create", name, "-q", queues, *words)}


async def alter_topic(source: Source, values: Values) -> dict[str, Any]:
    """Change its queues, permission or durability. Raises TopicNotFound, ApiError (400)."""
    name, queues, perm = values["topic"], values["queues"], values["perm"]
    level = values["durability"]
    if queues is None and perm is None and level is None:
        raise ApiError(
            400, "missing-value", "nothing to change was named; give queues, perm or durability"
        )
    await _check_kind(source, name)
    bits = PERMS[perm] if perm else None
    await source.admin.alter_topic(name, queues, perm=bits, durability=_level(level))
    words = (*(("-q", queues) if queues else ()), *_options(durability=level, perm=perm))
    return {"command": command("topic", "alter", name, *words)}


def _level(name: str | None) -> Durability | None:
    return durability_of(name) if name else None


def _options(**values: str | None) -> tuple[str, ...]:
    """The options of a command that were given."""
    given = ((name, value) for name, value in values.items() if value)
    return tuple(word for name, value in given for word in (f"--{name}", value))


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
    groups = source.admin.groups()
    found = await groups.describe(group)
    now = {row.queue: row.next for row in found.queues if row.queue.topic == topic}
    if values["dry_run"]:
        moved = await groups.places(topic, place)
    else:
        moved = await groups.reset(group, topic, place)
    words = ("group", "reset", group, "--topic", topic, "--to", values["to"])
    return _moved(values, now, moved, words)


async def clone_group(source: Source, values: Values) -> dict[str, Any]:
    """Let another group go on where this one is, or show the offsets it would go on at.

    Raises GroupNotFound, IllegalOperation (409) while the other one has members.
    """
    group, target, topic = values["group"], values["target"], values["topic"]
    groups = source.admin.groups()
    now = {row.queue: row.next for row in await groups.lag(target)}
    moved = await groups.clone(group, target, topic, dry_run=values["dry_run"])
    words = ("group", "clone", group, target, *(("--topic", topic) if topic else ()))
    return _moved(values, now, moved, words)


async def create_group(source: Source, values: Values) -> dict[str, Any]:
    """Create a group; one that exists stays as it is. Raises InvalidRequest."""
    name, wanted = values["name"], _group_fields(values)
    await source.admin.groups().create(name, **wanted)
    return {"command": command("group", "create", name, *_group_options(wanted))}


async def alter_group(source: Source, values: Values) -> dict[str, Any]:
    """Change the given settings of a group. Raises GroupNotFound, ApiError (400)."""
    name, wanted = values["group"], _group_fields(values)
    if not wanted:
        names = ", ".join(GROUP_FIELDS)
        raise ApiError(400, "missing-value", f"nothing to change was named; give one of {names}")
    await source.admin.groups().alter(name, **wanted)
    return {"command": command("group", "alter", name, *_group_options(wanted))}


def _group_fields(values: Values) -> dict[str, Any]:
    return {name: values[name] for name in GROUP_FIELDS if values[name] is not None}


def _group_options(wanted: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in wanted.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return words


async def delete_group(source: Source, values: Values) -> dict[str, Any]:
    """Forget a group. Raises GroupNotFound, IllegalOperation (409) while it has members."""
    group, dead = values["group"], values["dead_letters"]
    await source.admin.groups().delete(group, dead_letters=dead)
    return {"command": command("group", "delete", group, *(["--dead-letters"] if dead else ()))}


def _moved(
    values: Values,
    now: Mapping[MessageQueue, int],
    moved: Mapping[MessageQueue, int],
    words: Sequence[str],
) -> dict[str, Any]:
    rows = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "next": now.get(queue),
            "then": offset,
        }
        for queue, offset in sorted(moved.items())
    ]
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
