"""The broker's hot path: build a record from encoded pieces, read what dispatch needs from one.

No `Message`, no property dictionary. `encode_record` joins a record once, into a bytearray whose
queue offset, physical offset and store timestamp are filled later (`message_layout.patch_record`,
or the `…_AT` constants). `scan_record` reads the fixed head with one unpack and searches the
property block for the five names that dispatch and de-duplication use.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from commitlog.errors import MessageTooLarge, StoreDamaged
from commitlog.files import Buffer
from commitlog.hosts import HOST_V4_SIZE
from commitlog.java import string_hash
from commitlog.message_layout import (
    BACK,
    FRONT,
    HEAD,
    HEAD_SIZE,
    I64,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_SIZE_MAX,
    TOPIC_V1_SIZE_MAX,
    body_crc,
)
from commitlog.properties import PROPERTIES_SIZE_MAX, find_property

_V6_EXTRA: Final = 12
_BORN_V6: Final = 0x10
_STORE_V6: Final = 0x20
_KEEP_FLAGS: Final = ~0x30

_pack_head = HEAD.pack


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
    body and record are the caller's. Raises MessageTooLarge (properties) and struct.error for an
    integer that its field cannot hold.
    """
    properties_size = len(properties)
    if properties_size > PROPERTIES_SIZE_MAX:
        raise MessageTooLarge("properties", properties_size, PROPERTIES_SIZE_MAX)
    body_size, topic_size = len(body), len(topic)
    size = HEAD_SIZE + 2 + body_size + topic_size + properties_size
    magic = MAGIC_V1 if topic_size <= TOPIC_V1_SIZE_MAX + 1 else MAGIC_V2
    sys_flag &= _KEEP_FLAGS
    if len(born_host) == HOST_V4_SIZE and len(store_host) == HOST_V4_SIZE:
        head = _pack_head(
            size,
            magic,
            body_crc(body),
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
        return bytearray().join((head, body, topic, properties_size.to_bytes(2, "big"), properties))
    if len(born_host) != HOST_V4_SIZE:
        size, sys_flag = size + _V6_EXTRA, sys_flag | _BORN_V6
    if len(store_host) != HOST_V4_SIZE:
        size, sys_flag = size + _V6_EXTRA, sys_flag | _STORE_V6
    return bytearray().join(
        (
            FRONT.pack(
                size,
                magic,
                body_crc(body),
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp_ms,
            ),
            born_host,
            I64.pack(store_timestamp_ms),
            store_host,
            BACK.pack(reconsume_times, prepared_transaction_offset, body_size),
            body,
            topic,
            properties_size.to_bytes(2, "big"),
            properties,
        )
    )


class ScannedRecord(NamedTuple):
    """What dispatch needs of one record. Absent properties are None; `tags_code` is then 0."""

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
_SCAN: Final = tuple(
    struct.Struct(f">ii4xi4xqqi{8 + born}xq{store + 12}xi")
    for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)
_scan_v4 = _SCAN[0].unpack_from
_WANTED: Final = (b"TAGS", b"KEYS", b"UNIQ_KEY", b"__PID", b"__SEQ")
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
        if sys_flag & 0x30:
            layout = _SCAN[sys_flag >> 4 & 3]
            store_ms, body_size = layout.unpack_from(data, offset)[-2:]
            at = offset + layout.size + body_size
        if body_size < 0:
            raise StoreDamaged(f"the record states a body of {body_size} bytes", position=offset)
        if magic == MAGIC_V1:
            topic_end = at + 1 + data[at]
            topic = bytes(data[at + 1 : topic_end])
        elif magic == MAGIC_V2:
            topic_end = at + 2 + (data[at] << 8 | data[at + 1])
            topic = bytes(data[at + 2 : topic_end])
        else:
            raise StoreDamaged(f"magic {magic & 0xFFFFFFFF:08x} is no message's", position=offset)
        start = topic_end + 2
        properties = bytes(data[start : offset + size])
        if len(properties) != (data[start - 2] << 8 | data[start - 1]) or (
            start + len(properties) != offset + size
        ):
            raise StoreDamaged("its parts do not add up to its size", position=offset)
    except (struct.error, IndexError) as error:
        raise StoreDamaged("the record is cut off", position=offset) from error
    tags, keys, unique_key, producer_id, producer_sequence = _wanted(properties)
    return _new_scanned(
        ScannedRecord,
        (
            size,
            topic,
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
    find, last = block.find, block.rfind
    if block[-1] != 2 or b"\x01\x02" in block:  # no end mark, or an empty value: rare
        return tuple(find_property(properties, name) for name in _WANTED)
    tags = keys = unique_key = producer_id = producer_sequence = None
    if (at := last(b"\x02UNIQ_KEY\x01") + 10) > 9:
        unique_key = block[at : find(b"\x02", at)]
    if (at := last(b"\x02TAGS\x01") + 6) > 5:
        tags = block[at : find(b"\x02", at)]
    if (at := last(b"\x02KEYS\x01") + 6) > 5:
        keys = block[at : find(b"\x02", at)]
    if (at := last(b"\x02__PID\x01") + 7) > 6:
        producer_id = block[at : find(b"\x02", at)]
    if (at := last(b"\x02__SEQ\x01") + 7) > 6:
        producer_sequence = block[at : find(b"\x02", at)]
    return tags, keys, unique_key, producer_id, producer_sequence
