"""The audit logs of all broker names in one list, the newest entry first."""

from __future__ import annotations

from typing import Any

from cluster.client.admin.audit import newest_entries
from cluster.console.api.changes import command, iso_time
from cluster.console.api.paging import bad_cursor, decode_cursor, encode_cursor
from cluster.console.api.source import Source
from cluster.console.api.table import Values

ASKS_MAX = 3
"""Answers that one page takes from a broker name; each looks at 1,000 entries."""


async def list_audit(source: Source, values: Values) -> dict[str, Any]:
    """A page; with a filter it may have fewer rows and a cursor. Raises Unauthorized."""
    cursor = values["cursor"]
    found = await newest_entries(
        source.client.instance,
        values["limit"],
        places=None if cursor is None else _places(cursor),
        asks_max=ASKS_MAX,
        since_ms=values["since_ms"],
        account=values["account"] or None,
        target=values["target"] or None,
        outcome=values["outcome"] or None,
    )
    return {
        "entries": found.rows,
        "cursor": encode_cursor(found.places) if found.places else None,
        "left_out": [{"broker": name, "why": why} for name, why in found.left_out.items()],
        "damaged": sum(found.damaged.values()),
        "command": _command(values),
    }


def _places(cursor: str) -> dict[str, int | None]:
    places = decode_cursor(cursor, dict)
    for number in places.values():
        if number is not None and not (type(number) is int and 0 <= number < 1 << 63):
            raise bad_cursor()
    return dict(places)


def _command(values: Values) -> str:
    words: list[object] = ["audit"]
    if values["since_ms"] is not None:
        words += ["--since", iso_time(values["since_ms"])]
    for option, name in (("--by", "account"), ("--target", "target"), ("--outcome", "outcome")):
        words += [option, values[name]] if values[name] else []
    return command(*words)
