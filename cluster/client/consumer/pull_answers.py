"""The messages of a pull's answer, in one pass over its bytes.

    answer   record │ record │ record …      layout: commitlog/records/message_layout.py
             └ one unpack, the sizes, the body's CRC; body and properties are copied out, properties
               stay bytes until the application asks for them

A record that is not of the usual form (hosts with IPv6 addresses, a topic over 127 bytes), or that
looks damaged, is left to `decode_message`: what that refuses is damage, and nothing else is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from cluster.client.message import ReceivedMessage, received
from cluster.protocol.json_body import MessageQueue
from commitlog.records.checksum import crc32
from commitlog.records.message import decode_message
from commitlog.records.message_layout import HEAD_SIZE, HEADS, MAGIC_V1
from commitlog.records.sys_flag import HOSTS_V6

_HEAD: Final = struct.Struct(">iii8xqqiq8xq8xi8xi")
"""With two IPv4 hosts: size, magic, CRC, queue offset, position, sysFlag, born and store time,
reconsume times, body size."""

_BLOCK_AFTER_TOPIC: Final = 3  # the topic's length byte before it, the block's size behind it

assert _HEAD.size == HEADS[0].size == HEAD_SIZE


def messages_in(
    queue: MessageQueue,
    data: bytes,
    first_offset: int,
    wants: Callable[[str | None], bool] | None,
) -> tuple[list[ReceivedMessage], int]:
    """The messages from `first_offset` on that `wants` their tags, and the bytes of their bodies.

    `wants` None: all of them. Raises StoreDamaged for anything that is no whole, undamaged record.
    """
    found: list[ReceivedMessage] = []
    at, total, size_of_bodies = 0, len(data), 0
    unpack, new, sum_of, add = _HEAD.unpack_from, tuple.__new__, crc32, found.append
    usual_max = total - HEAD_SIZE  # no head fits behind it
    while at < total:
        message = None
        if at <= usual_max:
            (size, magic, crc, offset, position, flags, born, stored, times, body_size) = unpack(
                data, at
            )
            end = at + size
            topic_at = at + HEAD_SIZE + body_size
            if (
                magic == MAGIC_V1
                and not flags & HOSTS_V6
                and body_size >= 0
                and topic_at < end <= total
            ):
                block_at = topic_at + _BLOCK_AFTER_TOPIC + data[topic_at]
                if (
                    block_at <= end
                    and end - block_at == data[block_at - 2] << 8 | data[block_at - 1]
                ):
                    body = data[at + HEAD_SIZE : topic_at]
                    if sum_of(body) & 0x7FFFFFFF == crc:
                        fields = (
                            queue,
                            offset,
                            body,
                            data[block_at:end],
                            position,
                            born,
                            stored,
                            times,
                            flags,
                        )
                        message = new(ReceivedMessage, fields)
        if message is None:
            record = decode_message(data, at)
            message, size = received(queue, record), record.record_size
            offset, body = message.queue_offset, message.stored_body
        at += size
        if offset < first_offset or (wants is not None and not wants(message.tags)):
            continue
        add(message)
        size_of_bodies += len(body)
    return found, size_of_bodies
