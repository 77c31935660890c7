"""Places in a queue that are not numbers: its oldest message, behind its newest, a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cluster.client.repeating import ask_leader
from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import (
    OffsetResponse,
    QueueRequest,
    SearchOffsetRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue

if TYPE_CHECKING:
    from cluster.client.client import Client

FIRST: Final = 0
LAST: Final = -1


def check_place(place: int) -> None:
    """Raises InvalidRequest: it is neither FIRST nor LAST nor a time."""
    if place < LAST:
        raise InvalidRequest(f"{place} is no time in ms since 1970; give one, FIRST or LAST")


async def offset_at(client: Client, queue: MessageQueue, place: int) -> int:
    """The queue offset of a place.

    Args:
        place: FIRST, LAST, or a time in ms since 1970: the first message stored then or later.

    Raises:
        InvalidRequest: the time is negative.
        ClusterError: nobody answered, or refused.
    """
    check_place(place)
    where = queue.broker_name, queue.topic
    request = encode(QueueRequest(queue.topic, queue.queue_id, bname=queue.broker_name))
    code = RequestCode.GET_MIN_OFFSET if place == FIRST else RequestCode.GET_MAX_OFFSET
    if place > FIRST:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        request = encode(
            SearchOffsetRequest(queue.topic, queue.queue_id, place, bname=queue.broker_name)
        )
    answer = await ask_leader(client, *where, code, request)
    return decode(OffsetResponse, answer.ext).offset
