"""Messages as a consumer receives them, and the receipts of a producer."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from cluster.protocol.json_body import MessageQueue
from commitlog.records.message import Message
from commitlog.records.names import RETRY_PREFIX
from commitlog.records.properties import decode_properties, find_property, join_properties

SYS_FLAG_COMPRESSED = 1
COMPRESSION_SHIFT = 8
COMPRESSION_MASK = 7
COMPRESSION_ZLIB = (0, 3)
"""Values of sysFlag bits 8–10 that mean zlib (docs/spec/remoting.md 1.6)."""

INFLATED_SIZE_MAX = 64 * 1024 * 1024
"""Limit of a decompressed body; a larger one is refused, so that it cannot fill the memory."""


class Receipt(NamedTuple):
    """A majority has the message on disk, or in memory if the producer asked for less (R22).

    For a delayed message or a half of a transaction it is the place where the message waits.

    Attributes:
        queue_offset: the message's offset in `queue`.
        index, term: its log entry; -1 if the broker does not send them.
        position: its byte address in the log, or that of its batch.

    If a message was sent again and its original is deleted from the broker's log, `queue_offset`
    and `index` are -1.
    """

    queue: MessageQueue
    queue_offset: int
    index: int  # type: ignore[assignment]  # hides a tuple method, like EntryId
    term: int
    position: int
    properties: bytes

    @property
    def message_id(self) -> str:
        """The client-made id (UNIQ_KEY), by which the message can be found."""
        return (find_property(self.properties, b"UNIQ_KEY") or b"").decode()


class _Stored(NamedTuple):
    """The fields of `ReceivedMessage`, which can be made in one step."""

    queue: MessageQueue
    queue_offset: int
    stored_body: bytes
    property_block: bytes
    position: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int
    sys_flag: int


class ReceivedMessage(_Stored):
    """One message. Times are ms since 1970; `queue_offset` counts messages of `queue`.

    `stored_body` is the body as the log has it, compressed if `sys_flag` says so. `property_block`
    holds the properties as the log has them (commitlog/records/properties.py): they become text
    when they are asked for.
    """

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """All properties as text."""
        return decode_properties(self.property_block)

    @property
    def body(self) -> bytes:
        """The body as its producer sent it. Raises ValueError if it cannot be decompressed."""
        if not self.sys_flag & SYS_FLAG_COMPRESSED:
            return self.stored_body
        return inflate(self.stored_body, self.sys_flag)

    @property
    def topic(self) -> str:
        """The topic to which it was sent, also if it comes again through a retry topic."""
        if self.queue.topic.startswith(RETRY_PREFIX):
            return self._text(b"RETRY_TOPIC") or self.queue.topic
        return self.queue.topic

    @property
    def attempt(self) -> int:
        """How often the group has got it, this time included: 1 for the first."""
        return self.reconsume_times + 1

    @property
    def keys(self) -> list[str]:
        """Business keys, for look-ups."""
        return (self._text(b"KEYS") or "").split()

    @property
    def tags(self) -> str | None:
        """The tag of the message, or None."""
        return self._text(b"TAGS")

    @property
    def message_id(self) -> str:
        """The client-made id (UNIQ_KEY)."""
        return self._text(b"UNIQ_KEY") or ""

    def _text(self, name: bytes) -> str | None:
        """One property, without decoding the others."""
        found = find_property(self.property_block, name)
        return None if found is None else found.decode("utf-8", "replace")


def received(queue: MessageQueue, stored: Message) -> ReceivedMessage:
    """A stored record as its receiver sees it."""
    return ReceivedMessage(
        queue,
        stored.queue_offset,
        stored.body,
        join_properties(stored.properties),
        stored.physical_offset,
        stored.born_timestamp_ms,
        stored.store_timestamp_ms,
        stored.reconsume_times,
        stored.sys_flag,
    )


class CompressionUnknown(ValueError):
    """A body is compressed in a way that this client cannot read (LZ4, zstd)."""


def inflate(body: bytes, sys_flag: int) -> bytes:
    """The body as its producer had it.

    Raises:
        CompressionUnknown: another algorithm than zlib.
        ValueError: damaged, or larger than `INFLATED_SIZE_MAX`.
    """
    if not sys_flag & SYS_FLAG_COMPRESSED:
        return body
    algorithm = sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK
    if algorithm not in COMPRESSION_ZLIB:
        raise CompressionUnknown(f"compression type {algorithm} is not zlib; use another client")
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(body, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise ValueError(f"the compressed body is damaged: {error}") from error
    if inflater.unconsumed_tail or not inflater.eof:
        raise ValueError(f"the compressed body is cut off or over {INFLATED_SIZE_MAX} bytes")
    return data
