"""Queue offsets that are given by meaning: the oldest message, behind the newest, or by time."""

from __future__ import annotations

from typing import Final

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
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

FIRST: Final = 0
"""The offset of the oldest message that the queue still holds."""
LAST: Final = -1
"""The offset behind the newest message."""


def check_place(place: int) -> None:
    """Refuse a place that is no time.

    Raises:
        InvalidRequest: `place` is neither FIRST nor LAST nor a time in ms since 1970.
    """
    if place < LAST:
        raise InvalidRequest(f"{place} is no time in ms since 1970; give one, FIRST or LAST")


async def offset_at(instance: ClientInstance, queue: MessageQueue, place: int) -> int:
    """The queue offset of a place, as the leader says.

    Args:
        place: FIRST, LAST, or a time in ms since 1970, which stands for the first message stored
            then or later.

    Raises:
        InvalidRequest: the time is negative.
        ClusterError: the leader refused, or no replica could be reached.
    """
    check_place(place)
    request = encode(QueueRequest(queue.topic, queue.queue_id, bname=queue.broker_name))
    code = RequestCode.GET_MIN_OFFSET if place == FIRST else RequestCode.GET_MAX_OFFSET
    if place > FIRST:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        request = encode(
            SearchOffsetRequest(queue.topic, queue.queue_id, place, bname=queue.broker_name)
        )
    answer = await ask_leader(instance, queue.broker_name, queue.topic, code, request)
    return decode(OffsetResponse, answer.ext).offset
