"""Body of a client batch (code 320): items back to back (docs/spec/remoting.md 2.2).

int32 size of the item | int32 0 | int32 0 | int32 flag | int32 body size | body
int16 properties size | properties
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster.errors import InvalidRequest
from commitlog.records.batch import BATCH_COUNT_MAX as BATCH_COUNT_MAX

_HEAD: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">h")
_pack_plain_head = struct.Struct(">i12xi").pack  # flag 0
ITEM_EXTRA_SIZE: Final = _HEAD.size + _SHORT.size
"""Bytes of an item beside its body and properties."""


class BatchItem(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


def encode_numbered(
    entries: Iterable[tuple[object, bytes, bytes, object]], prefix: bytes, sequence: int
) -> bytes:
    """The items of many messages; each body is copied once.

    Args:
        entries: (anything, body, properties behind the number, anything) of each message.
        prefix: the properties before those, with one %d for the number.
        sequence: number of the first message; they count up by one.
    """
    pieces: list[bytes] = []
    body_size = properties_size = -1
    head = length = b""
    for _, body, tail, _ in entries:
        properties = prefix % sequence + tail
        sequence += 1
        if len(body) != body_size or len(properties) != properties_size:  # alike in most batches
            body_size, properties_size = len(body), len(properties)
            head = _pack_plain_head(ITEM_EXTRA_SIZE + body_size + properties_size, body_size)
            length = _SHORT.pack(properties_size)
        pieces += (head, body, length, properties)
    return b"".join(pieces)


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
