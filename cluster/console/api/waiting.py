"""Messages that wait: scheduled ones, and halves of open transactions, in the order of the log."""

from __future__ import annotations

from typing import Any

from cluster.client.admin.waiting_messages import waiting_page
from cluster.console.api.bodies import clean
from cluster.console.api.changes import command
from cluster.console.api.paging import bad_cursor, decode_cursor, encode_cursor
from cluster.console.api.source import Source
from cluster.console.api.table import Values
from cluster.protocol.waiting_headers import DELAYED, TRANSACTIONS


async def list_scheduled(source: Source, values: Values) -> dict[str, Any]:
    """A page of messages that wait for their time. Raises RequestNotSupported."""
    return await _page(source, values, DELAYED, "schedule")


async def list_transactions(source: Source, values: Values) -> dict[str, Any]:
    """A page of half messages without an outcome. Raises RequestNotSupported."""
    return await _page(source, values, TRANSACTIONS, "txn")


async def _page(source: Source, values: Values, kind: str, verb: str) -> dict[str, Any]:
    """Broker name by broker name; the cursor is the next one's name and the address there."""
    brokers, limit = await source.broker_names(), values["limit"]
    first, begin = _place(values["cursor"], brokers)
    rows: list[dict[str, Any]] = []
    total, dues, cursor = 0, [], None
    for name in brokers:
        left = limit - len(rows) if name >= first else 0
        page = await waiting_page(
            source.client.instance, name, kind, begin if name == first else 0, max(left, 1)
        )
        total += page.total
        if page.next_due_ms is not None:
            dues.append(page.next_due_ms)
        if cursor is not None or name < first:
            continue
        rows += [_row(row) for row in page.rows[:left]]
        if left == 0 and page.rows:
            cursor = encode_cursor([name, 0])
        elif page.following is not None:
            cursor = encode_cursor([name, page.following])
    return {
        "total": total,
        "next_due_ms": min(dues, default=None),
        "messages": rows,
        "cursor": cursor,
        "command": command(verb, "list"),
    }


def _place(cursor: str | None, brokers: list[str]) -> tuple[str, int]:
    if cursor is None:
        return "", 0
    match decode_cursor(cursor, list):
        case [str(name), int(begin)] if begin >= 0:
            return name, begin
    raise bad_cursor()


def _row(row: dict[str, Any]) -> dict[str, Any]:
    texts = {name: clean(row[name]) for name in ("message_id", "group")}
    return row | texts | {"keys": clean(row["keys"]).split()}
