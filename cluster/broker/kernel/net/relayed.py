"""The relay port: everything goes to the leader, but for questions that tools ask of all brokers.

A relay name is one more broker name in the routes of stock clients (cluster/nameserver/relays.py).
Tools ask each name of a topic for its share and add the answers up, so a relay has no share: its
leader counts what it passed on. A consumer says its heartbeats to every address of a route, so that
it has registered at each client port: a second connection would look like a second client. Where a
tool asks one broker name only, drawn at random, the leader answers through the relay as usual.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster.broker.kernel.net.requests import Call
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import EMPTY
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
    RequestCode.QUERY_MESSAGE: Empty(
        code=ResponseCode.QUERY_NOT_FOUND, remark="a relay holds no messages; ask its leader"
    ),
}


def answered_here(call: Call, request: object) -> bool:
    """Answer a request in which a relay has no share; False for one that the leader is to see."""
    empty = NOTHING_HERE.get(call.frame.code)
    if empty is not None:
        call.answer(empty.code, EMPTY, empty.body, empty.remark)
    elif isinstance(request, HeartbeatData) and request.consumers:
        call.answer()
    else:
        return False
    return True
