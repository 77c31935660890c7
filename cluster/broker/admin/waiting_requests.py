"""Messages that wait, as the leader's tables have them, in the order of the log: 31017.

    {"kind": "delayed", "total": 2, "next_due_ms": 1769860800000, "next": null, "rows": [
        {"position": 4096, "offset": 7, "due_ms": 1769860800000, "level": 0, "topic": "orders",
         "queue": 1, "message_id": "7F00…", "keys": "order-17", "group": "", "stored_ms": …,
         "size": 17, "checks": 0, "asked_ms": 0}]}

`size` is that of the record in bytes, `offset` that in the queue where it waits, `topic` and
`queue` are where it was sent to. `next` is the address that the next page begins at. `level` is 0
for timers and halves; `due_ms` of a half is the time of its next check, and `checks` how often a
producer of `group` was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.core.delay.folds import real_place
from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.waiting_headers import DELAYED, KINDS, ListWaitingRequest
from commitlog.records.message_fast import ScannedRecord, scan_record
from commitlog.records.properties import find_property
from commitlog.records.property_names import PRODUCER_GROUP

ROWS_MAX = 200
"""Records that one answer reads from the log."""
PAGE_BYTES_MAX = 4 << 20
"""Bytes of records after which an answer ends: reading them holds the event loop."""


def list_waiting(ports: AdminPorts, call: Call, request: ListWaitingRequest) -> None:
    """31017."""
    if request.kind not in KINDS or not 1 <= request.max_num <= ROWS_MAX or request.begin < 0:
        raise InvalidRequest(
            f"kind {request.kind!r:.20}, begin {request.begin}, maxNum {request.max_num}; give one "
            f"of {', '.join(KINDS)}, an address from 0 on, and 1 to {ROWS_MAX}"
        )

    def look() -> None:
        state, now_ms = ports.state, ports.now_ms()
        if request.kind == DELAYED:
            total, next_due_ms = len(state.delayed), state.delayed.next_due_ms(now_ms)
            rows = _delayed(ports, request.begin)
        else:
            total, next_due_ms = len(state.halves), None
            rows = _halves(ports, request.begin)
        found, following = _page(rows, request.max_num)
        body = {
            "kind": request.kind,
            "total": total,
            "next_due_ms": next_due_ms,
            "next": following,
            "rows": found,
        }
        call.answer(0, body=orjson.dumps(body))

    call.when_current(look)


def _page(
    rows: Iterator[dict[str, Any]], count_max: int
) -> tuple[list[dict[str, Any]], int | None]:
    """Rows of one answer, and the address at which the next one begins."""
    found: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        if len(found) == count_max or size >= PAGE_BYTES_MAX:
            return found, row["position"]
        found.append(row)
        size += row["size"]
    return found, None


def _delayed(ports: AdminPorts, begin: int) -> Iterator[dict[str, Any]]:
    for position, waiting in ports.state.delayed.waiting_from(begin):
        row = _row(ports, position)
        yield row | {"offset": waiting.offset, "due_ms": waiting.due_ms, "level": waiting.level}


def _halves(ports: AdminPorts, begin: int) -> Iterator[dict[str, Any]]:
    halves = ports.state.halves
    for position, half in halves.waiting_from(begin):
        row = _row(ports, position)
        row |= {"offset": half.offset, "due_ms": halves.rule.due_ms(half)}
        yield row | {"checks": half.checks, "asked_ms": half.asked_ms}


def _row(ports: AdminPorts, position: int) -> dict[str, Any]:
    record = scan_record(bytes(ports.reader.record(position)))
    place = real_place(record)
    return {
        "position": position,
        "level": 0,
        "topic": _text(place.topic),
        "queue": place.queue_id,
        "message_id": _text(record.unique_key or b""),
        "keys": _text(record.keys or b""),
        "group": _group(record),
        "stored_ms": record.store_timestamp_ms,
        "size": record.size,
        "checks": 0,
        "asked_ms": 0,
    }


def _group(record: ScannedRecord) -> str:
    return _text(find_property(record.properties, PRODUCER_GROUP.encode()) or b"")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.LIST_WAITING: Handler(Who.LEADER, fields(ListWaitingRequest), ADMIN, list_waiting),
}
