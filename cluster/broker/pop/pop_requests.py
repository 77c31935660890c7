"""Serves pop (200050), which hides messages for a while, and peek (200052); RocketMQ 5's rules.

Source: docs/spec/remoting.md 5.

messages           0     clients make receipt handles of the header; retried messages carry theirs
no message         suspended until one comes, or 210 when pollTime is over; 209: too many wait
"""

from __future__ import annotations

from typing import Any, Final

from cluster.broker.kernel.net.decisions import (
    Answer,
    Step,
    WhenShown,
    WithGroups,
    decided_for,
)
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.wanted import EVERYTHING
from cluster.broker.pop.asking import attempt_of, check_group, check_topic, wanted_of
from cluster.broker.pop.popping import Ask
from cluster.broker.pop.ports import PopPorts
from cluster.broker.pop.taking import TakeOrWait
from cluster.core.access.needs import Needs, to_consume
from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.headers import encode
from cluster.protocol.pop_headers import PeekRequest, PopRequest, PopResponse

COUNT_MAX: Final = 32  # messages of one pop
INVISIBLE_MS_MAX: Final = 3 * 24 * 3600 * 1000  # as of RocketMQ's timers, which bring them back
TOO_LATE_MS: Final = 500  # a request so long after the end of its poll time is not served


def pop(ports: PopPorts, call: Call, request: PopRequest) -> Step[PopPorts]:
    """Serve 200050: answers once the checkpoints that will bring the messages back are logged."""
    now_ms = ports.now_ms()
    born_ms = request.born_time or now_ms
    if request.poll_time >= 0 and now_ms - born_ms - request.poll_time > TOO_LATE_MS:
        code = ResponseCode.POLLING_TIMEOUT
        ext = encode(PopResponse(now_ms, 0, 0, 0))
        return Answer(lambda call: call.answer(code, ext, remark="pop message is too late"))
    if not 1 <= request.max_msg_nums <= COUNT_MAX:
        raise InvalidRequest(
            f"maxMsgNums {request.max_msg_nums} is impossible; give 1 to {COUNT_MAX}"
        )
    if not 1 <= request.invisible_time <= INVISIBLE_MS_MAX:
        raise InvalidRequest(
            f"invisibleTime {request.invisible_time} is impossible; give 1 to {INVISIBLE_MS_MAX} ms"
        )
    check_topic(ports, call, request.topic, request.queue_id)
    check_group(ports, call, request.consumer_group, request.topic)
    ask = Ask(
        request.consumer_group,
        request.topic,
        request.queue_id,
        request.max_msg_nums,
        request.invisible_time,
        request.init_mode,
        wanted_of(ports, call, request.exp_type, request.exp),
        request.order,
        attempt_of(request.attempt_id),
    )
    seconds = (born_ms + request.poll_time - now_ms) / 1000
    wait = min(seconds, ports.config.long_poll_seconds_max)
    take = TakeOrWait(ask, wait, call.router.access.changes)

    def begin() -> WhenShown[PopPorts]:
        return WhenShown(ports.derived.applied, lambda: take)

    if ports.state.groups.get(ask.group) is None:
        return WithGroups((ask.group,), begin)
    return begin()


def peek(ports: PopPorts, call: Call, request: PeekRequest) -> None:
    """Serve 200052: answers with the messages that a pop would give, and hides none of them."""
    if not 1 <= request.max_msg_nums <= COUNT_MAX:
        raise InvalidRequest(
            f"maxMsgNums {request.max_msg_nums} is impossible; give 1 to {COUNT_MAX}"
        )
    check_topic(ports, call, request.topic, request.queue_id)
    check_group(ports, call, request.consumer_group, request.topic)
    group, topic = request.consumer_group, request.topic
    ask = Ask(group, topic, request.queue_id, request.max_msg_nums, 0, 0, EVERYTHING)

    def look() -> None:
        records, rest = ports.pop.popping.peek(ask)
        ext = encode(PopResponse(ports.now_ms(), 0, 0, rest))
        if records:
            call.answer(0, ext, b"".join(records), "FOUND")
        else:
            code = ResponseCode.PULL_NOT_FOUND
            call.answer(code, ext, remark="NO_MESSAGE_IN_QUEUE")

    call.when_current(look)


def _needs(request: PopRequest | PeekRequest) -> Needs:
    """Permissions that a request needs; only its own group may consume a retry topic."""
    return to_consume(request.topic, request.consumer_group)


ROUTES: dict[int, Handler[PopPorts, Any]] = {
    RequestCode.POP_MESSAGE: Handler(Who.LEADER, fields(PopRequest), _needs, decided_for(pop)),
    RequestCode.PEEK_MESSAGE: Handler(Who.LEADER, fields(PeekRequest), _needs, peek),
}
