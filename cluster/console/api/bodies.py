"""A message as JSON: its place, names, properties, and its body as text, JSON, hex or base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from cluster.client.message import ReceivedMessage
from commitlog.records.property_names import DLQ_ORIGIN_TOPIC

FORMATS = ("auto", "text", "json", "hex", "base64")
SHOWN_MAX = 4096
"""Bytes of a body in a list of messages."""
WHOLE_MAX = 1 << 20
"""Bytes of the body of one message."""


def message_json(message: ReceivedMessage, form: str, shown_max: int) -> dict[str, Any]:
    """One message.

    Args:
        form: one of FORMATS; auto is JSON where the body is an object or a list, else text, and
            hex for bytes that are no UTF-8.
        shown_max: bytes of the body that are shown.
    """
    return {
        "topic": message.queue.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "position": message.position,
        "message_id": clean(message.message_id),
        "keys": [clean(key) for key in message.keys],
        "tags": None if message.tags is None else clean(message.tags),
        "born_ms": message.born_timestamp_ms,
        "stored_ms": message.store_timestamp_ms,
        "attempt": message.attempt,
        "of_topic": origin_of(message.properties),
        "properties": {clean(k): clean(v) for k, v in sorted(message.properties.items())},
        "body": body_json(message, form, shown_max),
    }


def origin_of(properties: Mapping[str, str]) -> str | None:
    """The topic of a dead letter before it became one."""
    found = properties.get(DLQ_ORIGIN_TOPIC)
    return None if found is None else clean(found)


def clean(text: str) -> str:
    """The text without half surrogates, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()


def body_json(message: ReceivedMessage, form: str, shown_max: int) -> dict[str, Any]:
    """The body: its format, its value as a text, its size in bytes, and whether it is cut off."""
    body, note = _body(message)
    if note:
        form = "hex"
    used, value = _shown(body, form, shown_max)
    return {
        "format": used,
        "value": value,
        "size": len(body),
        "is_cut": len(body) > shown_max,
        "note": note,
    }


def body_size(message: ReceivedMessage) -> int:
    """Bytes of the body that `body_json` has to show."""
    return len(_body(message)[0])


def _body(message: ReceivedMessage) -> tuple[bytes, str]:
    """The body, or its stored bytes and why they cannot be decompressed."""
    try:
        return message.body, ""
    except ValueError as error:  # compressed by an unknown algorithm, or damaged
        return message.stored_body, str(error)


def _shown(body: bytes, form: str, shown_max: int) -> tuple[str, str]:
    if form in ("auto", "json") and len(body) <= shown_max and body[:1] in (b"{", b"["):
        try:
            parsed = orjson.loads(body)
            return "json", orjson.dumps(parsed, option=orjson.OPT_INDENT_2).decode()
        except orjson.JSONDecodeError:
            pass
    shown = body[:shown_max]
    if form == "hex":
        return "hex", shown.hex(" ")
    if form == "base64":
        return "base64", base64.b64encode(shown).decode()
    try:
        return "text", shown.decode()
    except UnicodeDecodeError as error:
        is_cut_letter = len(body) > shown_max and error.start >= len(shown) - 3
        if form == "auto" and not is_cut_letter:
            return "hex", shown.hex(" ")
        return "text", shown.decode("utf-8", "replace")
