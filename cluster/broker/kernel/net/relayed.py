"""The relay port: everything goes to the leader, but for questions that tools ask of all brokers.

A relay name is one more broker name in the routes of stock clients (cluster/nameserver/relays.py).
Tools ask each name of a topic for its share and add the answers up, so a relay has no share: its
leader counts what it passed on. A consumer says its heartbeats to every address of a route, so that
it has registered at each client port: a second connection would look like a second client. Where a
tool asks one broker name only, drawn at random, the leader answers through the relay as usual.

What is pulled here is a queue of a notification route (cluster/nameserver/notify_routes.py): always
empty, at position 0 for everybody, never locked.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from cluster.broker.kernel.net.requests import Call
from cluster.core.topics import RETRY_PREFIX
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import EMPTY, Frame
from cluster.protocol.headers import (
    OffsetResponse,
    PullRequest,
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
    encode,
)
from cluster.protocol.heartbeat import HeartbeatData
from cluster.protocol.json_body import dump
from cluster.protocol.topics import encode_topic_stats


class Empty(NamedTuple):
    """An answer without anything in it, in the form that the tool expects."""

    body: bytes = b""
    code: int = 0
    remark: str | None = None


_NO_SERIES = {"sum": 0, "tps": 0.0, "avgpt": 0.0}

NOTHING_HERE: dict[int, Empty] = {
    RequestCode.GET_TOPIC_STATS_INFO: Empty(encode_topic_stats({})),
    RequestCode.GET_CONSUME_STATS: Empty(dump({"consumeTps": 0.0, "offsetTable": {}})),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Empty(dump({"offsetTable": {}})),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Empty(dump({"consumeTimeSpanSet": []})),
    RequestCode.VIEW_BROKER_STATS_DATA: Empty(
        dump({f"stats{span}": _NO_SERIES for span in ("Day", "Hour", "Minute")})
    ),
    RequestCode.LOCK_BATCH_MQ: Empty(dump({"lockOKMQSet": []})),
    RequestCode.UNLOCK_BATCH_MQ: Empty(),
    RequestCode.QUERY_MESSAGE: Empty(
        code=ResponseCode.QUERY_NOT_FOUND, remark="a relay holds no messages; ask its leader"
    ),
}


QueuePosition = (
    QueryConsumerOffsetRequest | UpdateConsumerOffsetRequest | QueueRequest | SearchOffsetRequest
)
AT_POSITION_0 = {
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
}
"""Codes about a queue; about one of a retry topic they are of its notification route."""


class RelayPulls(Protocol):
    """Pulls from queues that are always empty."""

    def take(self, client: Any, frame: Frame, request: PullRequest, /) -> None:
        """Answer now or later. Raises FlowControlled."""
        ...


def answered_here(call: Call, request: object, pulls: RelayPulls) -> bool:
    """Answer a request in which a relay has no share; False for one that the leader is to see.

    Raises FlowControlled.
    """
    empty = NOTHING_HERE.get(call.frame.code)
    if isinstance(request, PullRequest):
        pulls.take(call.client, call.frame, request)
    elif (
        call.frame.code in AT_POSITION_0
        and isinstance(request, QueuePosition)
        and request.topic.startswith(RETRY_PREFIX)
    ):
        call.answer(0, encode(OffsetResponse(0)))
    elif empty is not None:
        call.answer(empty.code, EMPTY, empty.body, empty.remark)
    elif isinstance(request, HeartbeatData) and request.consumers:
        call.answer()
    else:
        return False
    return True
