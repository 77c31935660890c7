"""Bodies of our own making: real RocketMQ messages of internal topics.

Source: docs/spec/raft_log.md 0, decision c.

    no-op     topic rmq_sys_dledger_noop   body "n1 leads term 5"
    members   topic rmq_sys_dledger_members  body the configuration of the group (members.py)
    tagged    topic rmq_sys_dledger_entry  body the embedder's, properties __PID, __SEQ, __STREAM

A no-op opens each leadership. It and a configuration are whole messages, so that a Java reader can
walk past them; their sysFlag says *rolled-back transaction* (0xC), which every RocketMQ version
leaves out of consume queues and key index. The storage stamps the physical offset at byte 28 and
the checksums after it.

Other entries of an embedder are its bare bytes; `append` refuses the rare body that would be taken
for one of these.
"""

from __future__ import annotations

from typing import NamedTuple

from commitlog.files.system import Buffer
from commitlog.records.hosts import NO_HOST, pack_host
from commitlog.records.message_fast import encode_record, scan_record, topic_field
from commitlog.records.message_layout import (
    BACK,
    HEAD_SIZE,
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    RECORD_SIZE_MIN,
)
from commitlog.records.properties import decode_properties, encode_properties
from dledger.core.configuration import Configuration
from dledger.core.types import NodeId, Term
from dledger.errors import LogUsageError
from dledger.membership.members import decode_configuration, encode_configuration

NOOP_TOPIC = "rmq_sys_dledger_noop"
MEMBERS_TOPIC = "rmq_sys_dledger_members"
ENTRY_TOPIC = "rmq_sys_dledger_entry"
STAMP_AT = PHYSICAL_OFFSET_AT
#: Properties have 32,767 bytes in a record; ids and streams are names, not data.
PRODUCER_BYTES_MAX = 255
STREAM_BYTES_MAX = 1024

_ROLLED_BACK = 0xC
#: Bytes 4-8 of every envelope; other bodies rarely have them.
ENVELOPE_MAGIC = MAGIC_V1.to_bytes(4, "big", signed=True)
_HOST = pack_host(NO_HOST)
_NOOP_FIELD = topic_field(NOOP_TOPIC)
_MEMBERS_FIELD = topic_field(MEMBERS_TOPIC)
_ENTRY_FIELD = topic_field(ENTRY_TOPIC)


class Tag(NamedTuple):
    """An entry's producer, stream, and number in that stream."""

    producer: str
    stream: str
    sequence: int


class Tagged(NamedTuple):
    """A tagged entry taken apart; `body` is a view of the given buffer."""

    tag: Tag
    body: memoryview
    store_timestamp_ms: int


def noop_body(node: NodeId, term: Term, store_timestamp_ms: int) -> bytearray:
    """Body of the entry that opens a leadership."""
    return _internal(_NOOP_FIELD, f"{node} leads term {term}".encode(), store_timestamp_ms)


def members_body(configuration: Configuration, store_timestamp_ms: int) -> bytearray:
    """Body of the entry that changes the group."""
    return _internal(_MEMBERS_FIELD, encode_configuration(configuration), store_timestamp_ms)


def open_members(body: Buffer) -> Configuration | None:
    """The configuration in an entry; None when it is another one.

    The caller has verified its checksum. Raises ValueError when it is one and cannot be read: then
    the log was written by a later version.
    """
    if body[4:8] != ENVELOPE_MAGIC or len(body) < RECORD_SIZE_MIN or _topic(body) != _MEMBERS_FIELD:
        return None
    size = BACK.unpack_from(body, HEAD_SIZE - BACK.size)[2]
    return decode_configuration(bytes(body[HEAD_SIZE : HEAD_SIZE + size]))


def _internal(field: bytes, text: bytes, store_timestamp_ms: int) -> bytearray:
    """A message that every reader walks past."""
    return encode_record(
        field,
        b"",
        text,
        queue_id=0,
        flag=0,
        sys_flag=_ROLLED_BACK,
        born_timestamp_ms=store_timestamp_ms,
        born_host=_HOST,
        store_host=_HOST,
        store_timestamp_ms=store_timestamp_ms,
    )


def tagged_body(tag: Tag, body: Buffer, store_timestamp_ms: int) -> bytearray:
    """Body of an entry with its producer's tag. Raises LogUsageError for an impossible tag."""
    _check(tag)
    properties = {"__PID": tag.producer, "__SEQ": str(tag.sequence)}
    if tag.stream:
        properties["__STREAM"] = tag.stream
    return encode_record(
        _ENTRY_FIELD,
        encode_properties(properties),
        body,
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=store_timestamp_ms,
        born_host=_HOST,
        store_host=_HOST,
        store_timestamp_ms=store_timestamp_ms,
    )


def is_envelope(body: Buffer) -> bool:
    """Could this be one of ours? Cheap; exact enough that no body of ours is ever missed."""
    return body[4:8] == ENVELOPE_MAGIC and len(body) >= RECORD_SIZE_MIN and _topic(body) is not None


def is_noop(body: Buffer) -> bool:
    """Is it the log's own: the opening of a leadership, or a change of the group?"""
    return (
        body[4:8] == ENVELOPE_MAGIC
        and len(body) >= RECORD_SIZE_MIN
        and _topic(body) in (_NOOP_FIELD, _MEMBERS_FIELD)
    )


def open_tagged(body: Buffer) -> Tagged | None:
    """Take a tagged entry apart; None when it is none. The caller has verified its checksum."""
    if body[4:8] != ENVELOPE_MAGIC or len(body) < RECORD_SIZE_MIN or _topic(body) != _ENTRY_FIELD:
        return None
    scanned = scan_record(body)
    properties = decode_properties(scanned.properties)
    tag = Tag(properties["__PID"], properties.get("__STREAM", ""), int(properties["__SEQ"]))
    size = BACK.unpack_from(body, HEAD_SIZE - BACK.size)[2]
    view = memoryview(body)[HEAD_SIZE : HEAD_SIZE + size]
    return Tagged(tag, view, scanned.store_timestamp_ms)


def _topic(body: Buffer) -> bytes | None:
    """Length and name of the topic if it is one of ours, else None."""
    size = BACK.unpack_from(body, HEAD_SIZE - BACK.size)[2]
    for field in (_NOOP_FIELD, _ENTRY_FIELD, _MEMBERS_FIELD):
        if size >= 0 and body[HEAD_SIZE + size : HEAD_SIZE + size + len(field)] == field:
            return field
    return None


def _check(tag: Tag) -> None:
    producer, stream = tag.producer.encode(), tag.stream.encode()
    if not 0 < len(producer) <= PRODUCER_BYTES_MAX:
        raise LogUsageError(
            f"a producer id must have 1 to {PRODUCER_BYTES_MAX} bytes, not {producer!r}"
        )
    if len(stream) > STREAM_BYTES_MAX:
        raise LogUsageError(f"a stream has at most {STREAM_BYTES_MAX} bytes, not {len(stream)}")
    if tag.sequence < 0:
        raise LogUsageError(f"sequences count up from 0, not {tag.sequence}")
    if any(mark in producer + stream for mark in (1, 2)):
        raise LogUsageError("a producer id or stream has no bytes 1 and 2: they part properties")
