"""Records as they are given out, and as they are stored again.

A message of a retry topic goes out under the topic that was asked for, with its handle as POP_CK,
since a client could not tell which retry topic it was in. Nothing else of the record changes.
"""

from __future__ import annotations

from cluster.broker.pop.writer import Again
from cluster.core.pop.handles import Handle
from cluster.core.pop.held import Held
from commitlog.records import property_names as names
from commitlog.records.message import decode_message
from commitlog.records.message_fast import scan_record, topic_field
from commitlog.records.message_layout import (
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    SYS_FLAG_LOW_AT,
    TOPIC_V1_SIZE_MAX,
)
from commitlog.records.properties import find_property, with_property, without_property

ORIGIN_GROUP = b"ORIGIN_GROUP"
_CHECKPOINT = names.POP_CHECKPOINT.encode()
_OFFSET = names.POP_CHECKPOINT_OFFSET.encode()
_FIRST_TIME = names.FIRST_POP_TIME.encode()
_RETRY_TOPIC = names.RETRY_TOPIC.encode()


def under_topic(record: bytes | memoryview, topic: str, handle: Handle) -> bytes:
    """The record under another topic, with its handle."""
    data = bytes(record)
    layout = HEADS[data[SYS_FLAG_LOW_AT] >> 4 & 3]
    head = list(layout.unpack_from(data))
    body_end = layout.size + head[-1]
    field = topic_field(topic)
    properties = without_property(scan_record(data).properties, _CHECKPOINT)
    properties = with_property(properties, _CHECKPOINT, str(handle).encode())
    head[0] = body_end + len(field) + 2 + len(properties)
    head[1] = MAGIC_V1 if len(field) <= TOPIC_V1_SIZE_MAX + 1 else MAGIC_V2
    body = data[layout.size : body_end]
    length = len(properties).to_bytes(2, "big")
    return b"".join((layout.pack(*head), body, field, length, properties))


def stored_again(record: bytes | memoryview, topic: str, held: Held, address: int) -> Again:
    """A message not acknowledged in time, as its retry topic gets it (docs/spec/store.md 7.6)."""
    message, scanned = decode_message(record, verify_body=False), scan_record(record)
    block = without_property(scanned.properties, _OFFSET)
    block = with_property(block, _OFFSET, b"%d" % message.queue_offset)
    if find_property(block, _RETRY_TOPIC) is None:
        block = with_property(block, _RETRY_TOPIC, message.topic.encode())
    if find_property(block, _FIRST_TIME) is None:
        block = with_property(block, _FIRST_TIME, b"%d" % held.pop_ms)
    block = with_property(block, ORIGIN_GROUP, held.place.group.encode())
    return Again(
        topic,
        block,
        message.body,
        message.flag,
        message.sys_flag,
        message.born_timestamp_ms,
        message.reconsume_times + 1,
        address,
        message.queue_offset,
    )
