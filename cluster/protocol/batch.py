"""Body of a client batch (code 320): items back to back (remoting.md 2.2).

int32 size of the item | int32 0 | int32 0 | int32 flag | int32 body size | body
int16 properties size | properties
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster.errors import InvalidRequest

_HEAD: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">h")
ITEM_EXTRA_SIZE: Final = _HEAD.size + _SHORT.size
"""Bytes of an item beside its body and properties."""

BATCH_COUNT_MAX: Final = 4096
"""Messages in one batch; a 4 MiB batch of 1 KiB messages is about as large."""


class BatchItem(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


def encode_item(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """One item."""
    size = ITEM_EXTRA_SIZE + len(body) + len(properties)
    return b"".join(
        (_HEAD.pack(size, 0, 0, flag, len(body)), body, _SHORT.pack(len(properties)), properties)
    )


def iterate(data: bytes) -> Iterator[BatchItem]:
    """The items of a batch's body, in order.

    Raises:
        InvalidRequest: sizes do not add up, or there are too many items.
    """
    at, count = 0, 0
    try:
        while at < len(data):
            size, _, _, flag, body_size = _HEAD.unpack_from(data, at)
            body_at = at + _HEAD.size
            properties_at = body_at + body_size + _SHORT.size
            (properties_size,) = _SHORT.unpack_from(data, properties_at - _SHORT.size)
            stop = properties_at + properties_size
            if min(body_size, properties_size) < 0 or stop != at + size or stop > len(data):
                raise InvalidRequest(f"item {count} of the batch states a wrong size")
            count += 1
            if count > BATCH_COUNT_MAX:
                raise InvalidRequest(f"the batch has more than {BATCH_COUNT_MAX} messages")
            yield BatchItem(flag, data[body_at : body_at + body_size], data[properties_at:stop])
            at = stop
    except struct.error as error:
        raise InvalidRequest(f"item {count} of the batch is cut off") from error
