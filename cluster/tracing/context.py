"""The context of a trace in a message's properties, as W3C writes it; the standard library alone.

    traceparent = 00-<trace id, 32 hex digits>-<span id, 16 hex digits>-<flags, 2 hex digits>

Source: https://www.w3.org/TR/trace-context/#traceparent-header
"""

from __future__ import annotations

import re
from typing import NamedTuple

from commitlog.files.system import Buffer
from commitlog.records.properties import find_property

NAME = b"traceparent"
MARK = NAME + b"\x01"
"""How the property begins in a record: what has not these bytes has no context."""
SAMPLED = 1
_VALUE = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class Parent(NamedTuple):
    """The span that a message was sent in."""

    trace_id: int
    span_id: int
    is_sampled: bool


def parent_of(properties: Buffer) -> Parent | None:
    """The context in encoded properties; None without one, or with one that is no context."""
    value = find_property(bytes(properties), NAME)
    found = None if value is None else _VALUE.fullmatch(value)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    if not trace_id or not span_id:
        return None
    return Parent(trace_id, span_id, bool(flags & SAMPLED))


def property_of(parent: Parent) -> bytes:
    """The encoded property."""
    return b"%b00-%032x-%016x-%02x\x02" % (
        MARK,
        parent.trace_id,
        parent.span_id,
        SAMPLED if parent.is_sampled else 0,
    )
