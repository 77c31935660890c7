"""One message ⇄ the bytes of its record; pure. The layout is drawn in `message_layout.py`.

`Message`, `encode_message` and `decode_message` are for people, tools and tests. The broker's hot
path builds and reads records without such an object: see `message_fast.py`, whose functions are
also exported here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from commitlog.errors import MessageTooLarge, StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records import property_names as names
from commitlog.records import sys_flag as flags
from commitlog.records.hosts import NO_HOST, Host, pack_host, unpack_host
from commitlog.records.message_fast import ScannedRecord, encode_record, scan_record, topic_field
from commitlog.records.message_layout import (
    BLANK,
    BODY_SIZE_MAX,
    HEAD_SIZE,
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_EXTRA_SIZE_MAX,
    SYS_FLAG_LOW_AT,
    body_crc,
)
from commitlog.records.properties import (
    decode_properties,
    encode_properties,
    split_keys,
    without_property,
)
from commitlog.records.record_crc import reserve_record_crc, seal_record, verify_record_crc

__all__ = [
    "Host",
    "Message",
    "ScannedRecord",
    "decode_message",
    "encode_message",
    "encode_record",
    "scan_record",
    "topic_field",
]

_RECORD_CRC_NAME: Final = names.RECORD_CRC.encode()


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the store holds it. Times are ms since 1970.

    Offsets are those of docs/spec/store.md 1.1.

    `body` is what is stored, so possibly compressed (see `sys_flag`). `magic` and `record_size`
    are what a reader found; they are 0 on a message not yet stored and take no part in equality.
    """

    topic: str
    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: Host = NO_HOST
    store_timestamp_ms: int = 0
    store_host: Host = NO_HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    magic: int = field(default=0, compare=False)
    record_size: int = field(default=0, compare=False)

    @property
    def body_crc(self) -> int:
        """The CRC that the record of this body holds."""
        return body_crc(self.body)

    @property
    def tags(self) -> str | None:
        """The TAGS property; None: the message has none."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        """The non-empty parts of KEYS."""
        return split_keys(self.properties.get(names.KEYS, ""))

    @property
    def unique_key(self) -> str | None:
        """The UNIQ_KEY property, which is the id that clients show; None: the message has none."""
        return self.properties.get(names.UNIQUE_KEY)

    @property
    def transaction_type(self) -> int:
        """The transaction bits of the system flag: none, prepared, committed or rolled back."""
        return flags.transaction_type(self.sys_flag)


def encode_message(
    message: Message, *, with_record_crc: bool = False, body_size_max: int = BODY_SIZE_MAX
) -> bytes:
    """The record of `message`: V1 for topics up to 127 bytes, V2 above.

    The IPv6 bits of sysFlag are set from the hosts, whatever they were. A `__CRC32#` property is
    dropped and, if asked for, made anew. Raises MessageTooLarge (body, properties, topic or
    record over its limit) and StoreUsageError (a value that its field cannot hold).
    """
    if len(message.body) > body_size_max:
        raise MessageTooLarge("body", len(message.body), body_size_max)
    block = encode_properties(message.properties)
    if names.RECORD_CRC in message.properties:
        block = without_property(block, _RECORD_CRC_NAME)
    if with_record_crc:
        block = reserve_record_crc(block)
    record = encode_record(
        topic_field(message.topic),
        block,
        message.body,
        message.queue_id,
        message.flag,
        message.sys_flag,
        message.born_timestamp_ms,
        pack_host(message.born_host),
        pack_host(message.store_host),
        message.reconsume_times,
        message.prepared_transaction_offset,
        message.queue_offset,
        message.physical_offset,
        message.store_timestamp_ms,
    )
    if len(record) > body_size_max + RECORD_EXTRA_SIZE_MAX:
        raise MessageTooLarge("record", len(record), body_size_max + RECORD_EXTRA_SIZE_MAX)
    if with_record_crc:
        seal_record(record)
    return bytes(record)


def decode_message(
    data: Buffer, offset: int = 0, *, verify_body: bool = True, verify_record: bool = False
) -> Message:
    """The message of the record that begins at `offset`; other bytes may follow the record.

    `verify_body` checks the body CRC; `verify_record` checks the `__CRC32#` property instead, if
    there is one (docs/spec/store.md 1.4). Raises StoreDamaged, with `offset` as its position, for
    anything that is no whole, undamaged record.
    """
    try:
        message, stored_crc, end = _parse(data, offset)
    except (struct.error, IndexError) as error:
        raise StoreDamaged("the record is cut off", position=offset) from error
    if verify_record and names.RECORD_CRC in message.properties:
        verify_record_crc(data, offset, end)
    elif verify_body and stored_crc != message.body_crc:
        raise StoreDamaged(
            f"the body's CRC is {message.body_crc}, the record says {stored_crc}", position=offset
        )
    return message


def decode_messages(data: Buffer) -> Iterator[Message]:
    """The messages of records that follow each other, as in a pull's answer; bodies are verified.

    Raises StoreDamaged, as `decode_message`, when it comes to what is no whole, undamaged record.
    """
    at = 0
    while at < len(data):
        message = decode_message(data, at)
        at += message.record_size
        yield message


def _parse(data: Buffer, offset: int) -> tuple[Message, int, int]:
    """The message, its stated CRC and its end; sizes checked, checksums not."""
    size, magic = BLANK.unpack_from(data, offset)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise StoreDamaged(f"magic {magic & 0xFFFFFFFF:08x} is no message's", position=offset)
    end = offset + size
    if size < HEAD_SIZE or end > len(data):
        raise StoreDamaged(
            f"the record states {size} bytes where {len(data) - offset} are", position=offset
        )
    head = HEADS[data[offset + SYS_FLAG_LOW_AT] >> 4 & 3]
    # fmt: off
    (_, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms, born_host,
     store_ms, store_host, reconsume_times, prepared_offset, body_size,
    ) = head.unpack_from(data, offset)
    # fmt: on
    body_at = offset + head.size
    topic_at = body_at + body_size
    if body_size < 0 or topic_at >= end:
        raise StoreDamaged(f"a body of {body_size} bytes does not fit in it", position=offset)
    tail = bytes(data[topic_at:end])
    topic_at = 1 if magic == MAGIC_V1 else 2
    topic_end = topic_at + int.from_bytes(tail[:topic_at], "big")
    block = tail[topic_end + 2 :]
    if len(block) != tail[topic_end] << 8 | tail[topic_end + 1]:
        raise StoreDamaged("its parts do not add up to its size", position=offset)
    message = Message(
        str(tail[topic_at:topic_end], "utf-8", "replace"),
        bytes(data[body_at : body_at + body_size]),
        decode_properties(block),
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_ms,
        unpack_host(born_host),
        store_ms,
        unpack_host(store_host),
        reconsume_times,
        prepared_offset,
        magic,
        size,
    )
    return message, crc, end
