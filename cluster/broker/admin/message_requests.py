"""Messages by address (33) and by key (12); docs/spec/remoting.md 2.7."""

from __future__ import annotations

from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import Needs, to_consume
from cluster.errors import NotFound, ServerError
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
    encode,
)
from commitlog.records.message_fast import scan_record
from commitlog.records.property_names import KEY_SEPARATOR

HITS_DEFAULT = 32
ANSWER_BYTES_MAX = 4 * 1024 * 1024  # of one answer; the frame's limit is 16 MiB


def view_message(ports: AdminPorts, call: Call, request: ViewMessageRequest) -> None:
    """33: one record by its address; code 1 when there is none."""

    def look() -> None:
        try:
            record = ports.reader.record(request.offset)
        except NotFound as error:
            raise ServerError(str(error)) from None
        call.require(to_consume(scan_record(record).topic.decode("utf-8", "replace")))
        call.answer(0, body=bytes(record))

    call.when_current(look)


def query_message(ports: AdminPorts, call: Call, request: QueryMessageRequest) -> None:
    """12: records under a key, oldest first; the index knows hashes, so keys are compared here."""

    def look() -> None:
        index = ports.derived.index
        if index is None:
            raise NotFound("the key index is off on this broker; set broker.index_enabled")
        found = index.query(
            request.topic,
            request.key,
            request.max_num or HITS_DEFAULT,
            request.begin_timestamp,
            request.end_timestamp,
        )
        records: list[bytes] = []
        size = 0
        for position in sorted(found):
            record = bytes(ports.reader.record(position))
            if not _has_key(record, request.topic, request.key):
                continue
            if records and size + len(record) > ANSWER_BYTES_MAX:
                break
            records.append(record)
            size += len(record)
        if not records:
            raise NotFound(f"no message of {request.topic} has the key {request.key}")
        last_ms = index.files[-1].header.end_timestamp_ms
        ext = encode(QueryMessageResponse(last_ms, index.end_position))
        call.answer(0, ext, b"".join(records))

    call.when_current(look)


def _has_key(record: bytes, topic: str, key: str) -> bool:
    scanned = scan_record(record)
    if scanned.topic != topic.encode():
        return False
    wanted = key.encode()
    keys = (scanned.keys or b"").split(KEY_SEPARATOR.encode())
    return wanted == scanned.unique_key or wanted in keys


def _needs_of_view(request: ViewMessageRequest) -> Needs:
    """The message's own topic is asked for when it was found."""
    return to_consume(request.topic) if request.topic else Needs()


def _needs_of_query(request: QueryMessageRequest) -> Needs:
    return to_consume(request.topic)


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.VIEW_MESSAGE_BY_ID: Handler(
        Who.LEADER, fields(ViewMessageRequest), _needs_of_view, view_message
    ),
    RequestCode.QUERY_MESSAGE: Handler(
        Who.LEADER, fields(QueryMessageRequest), _needs_of_query, query_message
    ),
}
