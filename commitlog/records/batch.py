"""Client batches: many messages in one request body (docs/spec/store.md 1.8).

    repeated:  total (4) | magic 0 (4) | crc 0 (4) | flag (4) | body length (4) | body
               | properties length (2) | properties

The broker makes each a record of its own (`encode_batch_records`), or, for topics whose queues are
of type BatchCQ, stores the whole body as one record, an *inner batch*: sysFlag gains 0xC0 and the
properties INNER_NUM (messages) and INNER_BASE (first queue offset).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from commitlog.errors import MessageTooLarge, StoreUsageError
from commitlog.files.system import Buffer
from commitlog.records import property_names as names
from commitlog.records import sys_flag as flags
from commitlog.records.message_fast import encode_record
from commitlog.records.message_layout import BODY_SIZE_MAX
from commitlog.records.properties import PROPERTIES_SIZE_MAX, find_property, with_property

_HEAD = struct.Struct(">iiiii")
_TAIL_SIZE: Final = 2
ITEM_SIZE_MIN: Final = _HEAD.size + _TAIL_SIZE
INNER_COUNT_MAX: Final = 32_767  # the count in a batch queue entry is a signed short
INNER_BATCH_FLAGS: Final = flags.NEEDS_UNWRAP | flags.INNER_BATCH

_INNER_NUM: Final = names.INNER_NUM.encode()
_INNER_BASE: Final = names.INNER_BASE.encode()


class BatchItem(NamedTuple):
    """One message of a client batch. `properties` is an encoded block."""

    flag: int
    body: Buffer
    properties: bytes


def encode_client_batch(items: Iterable[BatchItem]) -> bytes:
    """The request body of a batch. Raises MessageTooLarge for a block over 32,767 bytes."""
    parts: list[Buffer] = []
    for flag, body, properties in items:
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise MessageTooLarge("properties", len(properties), PROPERTIES_SIZE_MAX)
        total = ITEM_SIZE_MIN + len(body) + len(properties)
        parts.append(_HEAD.pack(total, 0, 0, flag, len(body)))
        parts.append(body)
        parts.append(len(properties).to_bytes(_TAIL_SIZE, "big"))
        parts.append(properties)
    return b"".join(parts)


#: Messages of one batch. Each becomes a record, so this bounds what one request makes of work.
BATCH_COUNT_MAX = 4096


def decode_client_batch(data: Buffer) -> list[BatchItem]:
    """The messages of a batch; bodies are views of `data`. Raises StoreUsageError."""
    view = memoryview(data)
    items: list[BatchItem] = []
    unpack, end, at = _HEAD.unpack_from, len(view), 0
    while at < end:
        if end - at < ITEM_SIZE_MIN:
            raise _malformed(at, f"{end - at} bytes are left, a message takes {ITEM_SIZE_MIN}")
        total, _, _, flag, body_size = unpack(view, at)
        body_at = at + 20
        body_end = body_at + body_size
        properties_at = body_end + _TAIL_SIZE
        if body_size < 0 or properties_at > end:
            raise _malformed(at, f"it states a body of {body_size} bytes")
        properties_size = view[body_end] << 8 | view[body_end + 1]
        item_end = properties_at + properties_size
        if item_end != at + total or item_end > end:
            raise _malformed(at, "its parts do not add up to its size")
        if len(items) == BATCH_COUNT_MAX:
            raise StoreUsageError(
                f"the batch has more than {BATCH_COUNT_MAX} messages; nothing of it was stored,"
                " send it as several"
            )
        items.append(BatchItem(flag, view[body_at:body_end], bytes(view[properties_at:item_end])))
        at = item_end
    return items


def _malformed(at: int, reason: str) -> StoreUsageError:
    return StoreUsageError(
        f"the batch is malformed at byte {at}: {reason}; nothing of it was stored, encode it again"
    )


def encode_batch_records(
    data: Buffer,
    topic: bytes,
    queue_id: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_host: bytes,
    *,
    reconsume_times: int = 0,
    body_size_max: int = BODY_SIZE_MAX,
) -> list[bytearray]:
    """A record for each message of the batch `data`, offsets and store time still to be patched.

    Arguments as for `encode_record`. Raises StoreUsageError (malformed) and MessageTooLarge (one
    message's body over its limit); then none of them may be stored.
    """
    records: list[bytearray] = []
    for flag, body, properties in decode_client_batch(data):
        if len(body) > body_size_max:
            raise MessageTooLarge("body", len(body), body_size_max)
        record = encode_record(
            topic,
            properties,
            body,
            queue_id,
            flag,
            sys_flag,
            born_timestamp_ms,
            born_host,
            store_host,
            reconsume_times,
        )
        records.append(record)
    return records


def inner_batch_properties(block: bytes, count: int, first_queue_offset: int) -> bytes:
    """The block of an inner batch of `count` messages that begins at `first_queue_offset`."""
    if not 0 < count <= INNER_COUNT_MAX:
        raise StoreUsageError(
            f"an inner batch of {count} messages cannot be stored; send 1 to {INNER_COUNT_MAX}"
        )
    assert first_queue_offset >= 0, "queue offsets start at 0"
    block = with_property(block, _INNER_NUM, b"%d" % count)
    return with_property(block, _INNER_BASE, b"%d" % first_queue_offset)


def inner_batch_of(block: bytes) -> tuple[int, int] | None:
    """(first queue offset, count) of an inner batch; None unless both properties are sound."""
    base, count = find_property(block, _INNER_BASE), find_property(block, _INNER_NUM)
    if base is None or count is None or not (base.isdigit() and count.isdigit()):
        return None
    if len(base) > 19 or len(count) > 5:
        return None
    first, number = int(base), int(count)
    return (first, number) if first < 1 << 63 and 0 < number <= INNER_COUNT_MAX else None
