"""Dead letters: messages that groups could not handle, kept in %DLQ%GROUP."""

from __future__ import annotations

from typing import Any

from cluster.client.message import INFLATED_SIZE_MAX
from cluster.console.api.bodies import SHOWN_MAX
from cluster.console.api.messages import page_json, page_of_messages
from cluster.console.api.paging import page_of_names
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.console.api.topics import topic_bounds
from cluster.errors import TopicNotFound
from commitlog.records.names import DLQ_PREFIX

EXPORTED_BYTES_MAX = 8 << 20
"""Bytes of the bodies of one page of an export, unless its only message is larger."""


async def list_dead_letter_groups(source: Source, values: Values) -> dict[str, Any]:
    """A page of groups that have dead letters, or had some."""
    names = sorted(
        topic.removeprefix(DLQ_PREFIX)
        for topic in await source.admin.list_topics()
        if topic.startswith(DLQ_PREFIX)
    )
    page, cursor = page_of_names(names, values)

    async def row(name: str) -> dict[str, Any]:
        try:
            bounds, _ = await topic_bounds(source, DLQ_PREFIX + name)
        except TopicNotFound:  # deleted meanwhile
            bounds = {}
        return {
            "group": name,
            "topic": DLQ_PREFIX + name,
            "messages": sum(row.max_offset - row.min_offset for row in bounds.values()),
            "written_ms": max((row.last_update_timestamp for row in bounds.values()), default=0),
        }

    return {"groups": await ask_each(row, page), "total": len(names), "cursor": cursor}


async def list_dead_letters(source: Source, values: Values) -> dict[str, Any]:
    """A page of one group's dead letters, the newest first."""
    return await _page(source, values, "newest", SHOWN_MAX, bytes_max=None)


async def export_dead_letters(source: Source, values: Values) -> dict[str, Any]:
    """A page of one group's dead letters with their whole bodies, the oldest first."""
    return await _page(source, values, "oldest", INFLATED_SIZE_MAX, bytes_max=EXPORTED_BYTES_MAX)


async def _page(
    source: Source, values: Values, order: str, shown_max: int, *, bytes_max: int | None
) -> dict[str, Any]:
    rest = {"queue": None, "broker": None, "offset": None, "order": order}
    asked = {**values, **rest, "topic": DLQ_PREFIX + values["group"]}
    try:
        page, cursor = await page_of_messages(source, asked, bytes_max=bytes_max)
    except TopicNotFound:  # the first dead letter makes the topic
        page, cursor = [], None
    return page_json(asked, page, cursor, shown_max)
