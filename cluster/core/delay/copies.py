"""Takes a stored record apart, to store the same message again in another topic or queue.

Source: docs/spec/store.md 7.

    record ─► Pieces ─► encode(topic, queue, properties, …) ─► another record of the same message

A broker does so when a deferred message is due, for a retry, and for a dead letter. Body, flags,
times and hosts stay equal byte by byte. The producer's id and sequence are left out, because the
table of producers counted them when the message was first stored (R8).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.message_fast import encode_record, scan_record, topic_field
from commitlog.records.message_layout import HEADS, SYS_FLAG_LOW_AT
from commitlog.records.producer_numbers import PRODUCER, SEQUENCE
from commitlog.records.properties import PAIR_END


class Pieces(NamedTuple):
    """The fields of one stored message. Hosts are packed, 8 or 20 bytes; times in ms."""

    topic: bytes
    queue_id: int
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    position: int

    def encode(
        self,
        topic: str,
        queue_id: int,
        properties: bytes,
        *,
        queue_offset: int,
        store_ms: int,
        origin: int = 0,
    ) -> bytearray:
        """The message as another record. Raises MessageTooLarge for properties over their limit."""
        return encode_record(
            topic_field(topic),
            properties,
            self.body,
            queue_id,
            self.flag,
            self.sys_flag,
            self.born_ms,
            self.born_host,
            self.store_host,
            self.reconsume_times,
            origin,
            queue_offset,
            0,
            store_ms,
        )


def read_pieces(record: Buffer) -> Pieces:
    """The pieces of one whole record, without a producer's numbers. Raises StoreDamaged."""
    scanned = scan_record(record)
    head = HEADS[record[SYS_FLAG_LOW_AT] >> 4 & 3]
    try:
        # fmt: off
        (_, _, _, queue_id, flag, _, position, sys_flag, born_ms, born_host, store_ms,
         store_host, reconsume_times, _, body_size) = head.unpack_from(record, 0)
        # fmt: on
    except struct.error as error:
        raise StoreDamaged("the record is cut off", position=0) from error
    body_end = head.size + body_size
    properties = _without_numbers(scanned.properties)
    return Pieces(
        scanned.topic,
        queue_id,
        bytes(record[head.size : body_end]),
        properties,
        flag,
        sys_flag,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        position,
    )


def _without_numbers(properties: bytes) -> bytes:
    """The properties without the pairs that the table of producers reads (core/numbers.py).

    It takes the value of any name that ends in `__PID` for a producer's id, so such pairs go, too.
    """
    if PRODUCER not in properties and SEQUENCE not in properties:
        return properties
    pairs = properties.split(PAIR_END)
    return PAIR_END.join(
        pair for pair in pairs if PRODUCER not in pair and not pair.startswith(SEQUENCE)
    )
