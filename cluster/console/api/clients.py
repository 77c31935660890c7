"""Producers and consumers that are connected, of all groups."""

from __future__ import annotations

from typing import Any

import orjson

from cluster.console.api.paging import page_of_names
from cluster.console.api.source import Source, ask_each
from cluster.console.api.table import Values
from cluster.errors import GroupNotFound
from cluster.protocol.codes import RequestCode


async def list_producers(source: Source, values: Values) -> dict[str, Any]:
    """A page of producer groups, each with its connected producers."""
    found: dict[str, list[dict[str, Any]]] = {}
    for broker in await source.broker_names():
        answer = await source.ask(broker, RequestCode.GET_ALL_PRODUCER_INFO)
        for group, rows in orjson.loads(answer.body).get("data", {}).items():
            found.setdefault(str(group), []).extend(
                {
                    "broker": broker,
                    "client_id": str(row["clientId"]),
                    "address": str(row["remoteIP"]),
                    "language": str(row["language"]),
                    "version": int(row["version"]),
                    "heard_ms": int(row["lastUpdateTimestamp"]),
                }
                for row in rows
            )
    page, cursor = page_of_names(sorted(found), values)
    rows = [
        {"group": name, "producers": sorted(found[name], key=lambda row: row["client_id"])}
        for name in page
    ]
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
