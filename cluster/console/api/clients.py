"""Producers and consumers that are connected, of all groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cluster.client.admin.connected_clients import connected_producers
from cluster.console.api.paging import page_of_names
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.errors import GroupNotFound


async def list_producers(source: Source, values: Values) -> dict[str, Any]:
    """A page of producer groups, each with its connected producers."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in await connected_producers(source.client.instance):
        fields = asdict(row)
        found.setdefault(fields.pop("group"), []).append(fields)
    page, cursor = page_of_names(sorted(found), values)
    rows = [{"group": name, "producers": found[name]} for name in page]
    return {"groups": rows, "total": len(found), "cursor": cursor}


async def list_consumers(source: Source, values: Values) -> dict[str, Any]:
    """The connected consumers of a page of consumer groups; groups without one are left out."""
    names = await source.admin.groups().names()
    page, cursor = page_of_names(names, values)

    async def row(name: str) -> dict[str, Any] | None:
        try:
            found = await source.admin.groups().describe(name)
        except GroupNotFound:
            return None
        if not found.members:
            return None
        return {
            "group": name,
            "is_broadcasting": found.is_broadcasting,
            "subscriptions": dict(found.subscriptions),
            "consumers": [
                {
                    "client_id": member.client_id,
                    "address": member.address,
                    "language": member.language,
                    "is_shared": member.is_shared,
                }
                for member in found.members
            ],
        }

    rows = [row for row in await ask_each(row, page) if row is not None]
    return {"groups": rows, "total": len(names), "cursor": cursor}
