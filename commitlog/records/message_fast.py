"""The broker's hot path: builds a record from encoded pieces, reads a record's dispatch fields.

No `Message`, no property dictionary. `encode_record` joins a record once, into a bytearray whose
queue offset, physical offset and store timestamp are filled later (`message_layout.patch_record`,
or the `…_AT` constants). `scan_record` reads the fixed head with one unpack and searches the
property block for the five names that dispatch and de-duplication use.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from commitlog.errors import MessageTooLarge, StoreDamaged, StoreUsageError
from commitlog.files.system import Buffer
from commitlog.records.checksum import crc32
from commitlog.records.hosts import HOST_V4_SIZE
from commitlog.records.java import string_hash
from commitlog.records.message_layout import (
    HEAD_SIZE,
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_SIZE_MAX,
    TOPIC_V1_SIZE_MAX,
)
from commitlog.records.properties import PROPERTIES_SIZE_MAX, find_property
from commitlog.records.sys_flag import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6

_V6_EXTRA: Final = 12
_KEEP_FLAGS: Final = ~HOSTS_V6
_pack_head = HEADS[0].pack
_pack_u16 = struct.Struct(">H").pack


@lru_cache(maxsize=4096)
def topic_field(topic: str) -> bytes:
    """Length and topic as they stand in a record: 1 length byte up to 127 bytes (V1), else 2 (V2).

    Raises MessageTooLarge above 255 bytes.
    """
    data = topic.encode("utf-8", "replace")
    size = len(data)
    if size <= TOPIC_V1_SIZE_MAX:
        return bytes((size,)) + data
    if size > TOPIC_SIZE_MAX:
        raise MessageTooLarge("topic", size, TOPIC_SIZE_MAX)
    return size.to_bytes(2, "big") + data


def encode_record(
    topic: bytes,
    properties: bytes,
    body: Buffer,
    queue_id: int,
    flag: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    store_timestamp_ms: int = 0,
) -> bytearray:
    """One record from encoded pieces; the body is copied once and its CRC taken.

    Shapes: `topic` from `topic_field`, `properties` a block (properties.py), hosts from
    `pack_host`, 8 or 20 bytes each. The IPv6 bits of sysFlag are set from the hosts. Limits of
    body and record are the caller's. Raises MessageTooLarge (properties) and StoreUsageError for
    an integer that its field cannot hold.
    """
    properties_size, body_size = len(properties), len(body)
    if properties_size > PROPERTIES_SIZE_MAX:
        raise MessageTooLarge("properties", properties_size, PROPERTIES_SIZE_MAX)
    born_v6, store_v6 = len(born_host) != HOST_V4_SIZE, len(store_host) != HOST_V4_SIZE
    size = HEAD_SIZE + 2 + body_size + len(topic) + properties_size
    sys_flag &= _KEEP_FLAGS
    layout = _pack_head
    if born_v6 or store_v6:
        size += (born_v6 + store_v6) * _V6_EXTRA
        sys_flag |= born_v6 * BORN_HOST_V6 | store_v6 * STORE_HOST_V6
        layout = HEADS[born_v6 + 2 * store_v6].pack
    try:
        head = layout(
            size,
            MAGIC_V1 if len(topic) <= TOPIC_V1_SIZE_MAX + 1 else MAGIC_V2,
            crc32(body) & 0x7FFFFFFF,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body_size,
        )
    except struct.error as error:
        raise StoreUsageError(
            f"a number of the message is outside its field's range ({error}); "
            "see docs/spec/store.md 1.1"
        ) from error
    return bytearray().join((head, body, topic, _pack_u16(properties_size), properties))


class ScannedRecord(NamedTuple):
    """Fields of one record for dispatch. Absent properties are None; `tags_code` is then 0.

    `producer_sequence` is looked for only where there is a `producer_id`.
    """

    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp_ms: int
    tags_code: int
    keys: bytes | None
    unique_key: bytes | None
    producer_id: bytes | None
    producer_sequence: bytes | None
    properties: bytes


# size, magic, queue id, queue offset, physical offset, sysFlag, store timestamp, body size
_SCANS: Final = tuple(
    struct.Struct(f">ii4xi4xqqi{8 + born}xq{store + 12}xi")
    for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)
_scan_v4 = _SCANS[0].unpack_from
_new_scanned = tuple.__new__

_TAGS_CODES_MAX: Final = 10_000  # distinct tags are few; a flood of them must not grow the memory
_tags_codes: dict[bytes, int] = {}


def tags_code_of(tags: bytes) -> int:
    """Tags code of an encoded TAGS value, remembered."""
    code = _tags_codes.get(tags)
    if code is None:
        if len(_tags_codes) >= _TAGS_CODES_MAX:
            _tags_codes.clear()
        code = _tags_codes[tags] = string_hash(str(tags, "utf-8", "replace"))
    return code


def scan_record(data: Buffer, offset: int = 0) -> ScannedRecord:
    """The fields of the record at `offset` that dispatch needs; the body is not read.

    Of a property that stands twice the last one counts, as in `decode_properties`. Raises
    StoreDamaged when the bytes are no whole record whose parts add up.
    """
    try:
        size, magic, queue_id, queue_offset, physical_offset, sys_flag, store_ms, body_size = (
            _scan_v4(data, offset)
        )
        at = offset + HEAD_SIZE + body_size
        if sys_flag & HOSTS_V6:
            layout = _SCANS[sys_flag >> 4 & 3]
            store_ms, body_size = layout.unpack_from(data, offset)[-2:]
            at = offset + layout.size + body_size
        end = offset + size
        # Topic length, topic, properties length, properties. (tobytes is faster than bytes().)
        tail = data[at:end].tobytes() if type(data) is memoryview else bytes(data[at:end])
        if magic == MAGIC_V1:
            topic_at, topic_end = 1, 1 + tail[0]
        elif magic == MAGIC_V2:
            topic_at, topic_end = 2, 2 + (tail[0] << 8 | tail[1])
        else:
            raise StoreDamaged(f"magic {magic & 0xFFFFFFFF:08x} is no message's", position=offset)
        properties = tail[topic_end + 2 :]
        stated = tail[topic_end] << 8 | tail[topic_end + 1]
    except (struct.error, IndexError) as error:
        raise StoreDamaged("the record is cut off", position=offset) from error
    if len(properties) != stated or body_size < 0 or len(tail) != end - at:
        raise StoreDamaged("its parts do not add up to its size", position=offset)
    tags, keys, unique_key, producer_id, producer_sequence = _wanted(properties)
    return _new_scanned(
        ScannedRecord,
        (
            size,
            tail[topic_at:topic_end],
            queue_id,
            queue_offset,
            physical_offset,
            sys_flag,
            store_ms,
            0 if tags is None else (_tags_codes.get(tags) or tags_code_of(tags)),
            keys,
            unique_key,
            producer_id,
            producer_sequence,
            properties,
        ),
    )


def _wanted(properties: bytes) -> tuple[bytes | None, ...]:
    """TAGS, KEYS, UNIQ_KEY, __PID and __SEQ of a block, as `find_property` gives them."""
    block = b"\x02" + properties
    if block[-1] != 2:  # 4.9 leaves the end mark out
        block += b"\x02"
    find, last = block.find, block.rfind
    # A found empty value is no pair; then, rarely, an earlier one of that name may count.
    tags = keys = unique_key = producer_id = producer_sequence = None
    if (at := last(b"\x02UNIQ_KEY\x01")) >= 0:
        unique_key = block[at + 10 : find(2, at + 10)] or find_property(properties, b"UNIQ_KEY")
    if (at := last(b"\x02TAGS\x01")) >= 0:
        tags = block[at + 6 : find(2, at + 6)] or find_property(properties, b"TAGS")
    if (at := last(b"\x02KEYS\x01")) >= 0:
        keys = block[at + 6 : find(2, at + 6)] or find_property(properties, b"KEYS")
    if (at := last(b"\x02__PID\x01")) >= 0:
        producer_id = block[at + 7 : find(2, at + 7)] or find_property(properties, b"__PID")
        if (at := last(b"\x02__SEQ\x01")) >= 0:
            value = block[at + 7 : find(2, at + 7)]
            producer_sequence = value or find_property(properties, b"__SEQ")
    return tags, keys, unique_key, producer_id, producer_sequence
