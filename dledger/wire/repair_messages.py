"""The two messages that bring damaged entries back, as frames: see `wire.py` for the rest.

RANGE_REQUEST head   request id 8 | prev term 8 | prev index 8 | last 8 | size max 4
RANGE_REPLY          as APPEND, with the request id for the term; no commit, nothing flagged
"""

from __future__ import annotations

import struct

from commitlog.files.system import Buffer
from dledger.core.messages import AppendEntries, RangeReply, RangeRequest
from dledger.core.types import NO_INDEX, EntryId, Index, NodeId, Term

_REQUEST = struct.Struct(">qqqqI")


def pack_range_request(message: RangeRequest) -> bytes:
    """The head of the frame: request id, `prev`, `last` and `size_max`; the sender is not in it."""
    return _REQUEST.pack(message.request_id, *message.prev, message.last, message.size_max)


def unpack_range_request(head: Buffer, sender: NodeId) -> RangeRequest:
    """Raises struct.error for a head of another length."""
    request_id, term, index, last, size_max = _REQUEST.unpack(head)
    prev = EntryId(Term(term), Index(index))
    return RangeRequest(sender, request_id, prev, Index(last), size_max)


def as_append(reply: RangeReply) -> AppendEntries:
    """The frame's fields by their places in an append."""
    return AppendEntries(
        reply.sender,
        Term(reply.request_id),
        reply.prev,
        reply.last,
        NO_INDEX,
        reply.runs,
        reply.position,
        reply.prev_chain_crc,
        reply.size,
        reply.data,
    )


def as_reply(append: AppendEntries) -> RangeReply:
    """The other way round."""
    return RangeReply(
        append.sender,
        append.term,
        append.prev,
        append.last,
        append.runs,
        append.position,
        append.prev_chain_crc,
        append.size,
        append.data,
    )
