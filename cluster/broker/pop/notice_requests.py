"""Is there a message (200054), how many wait (200055), back to another kind of store (200056)."""

from __future__ import annotations

from typing import Any

from cluster.broker.kernel.net.requests import Call, Handler, Who, fields, nothing
from cluster.broker.kernel.read.wanted import EVERYTHING
from cluster.broker.pop.asking import WaitingAsk, attempt_of, check_group, check_topic, wanted_of
from cluster.broker.pop.popping import Ask
from cluster.broker.pop.ports import PopPorts
from cluster.core.access.needs import ADMIN, Needs, to_consume
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.pop_headers import (
    NotificationRequest,
    NotificationResponse,
    PollingInfoRequest,
    PollingInfoResponse,
)


def notification(ports: PopPorts, call: Call, request: NotificationRequest) -> None:
    """200054: hasMsg=true at once or when one comes, hasMsg=false when pollTime is over."""
    check_topic(ports, call, request.topic, request.queue_id)
    check_group(ports, call, request.consumer_group, request.topic)
    wanted_of(ports, call, request.exp_type, request.exp)
    ask = Ask(
        request.consumer_group,
        request.topic,
        request.queue_id,
        1,
        0,
        0,
        EVERYTHING,
        request.order,
        attempt_of(request.attempt_id),
    )
    now_ms = ports.now_ms()
    seconds = ((request.born_time or now_ms) + request.poll_time - now_ms) / 1000
    waiting = WaitingNotice(ports, call, ask, min(seconds, ports.config.long_poll_seconds_max))
    call.when_current(waiting.begin)


class WaitingNotice(WaitingAsk):
    """One question: looks, waits, is answered once."""

    def begin(self) -> None:
        """Look at once; without a message wait, or answer that too many wait already."""
        self.wake()
        if self.settled:
            return
        if self._seconds <= 0:
            self._answer(has=False)
        elif not self._ports.pop.waits.suspend(self, self._seconds):
            self._answer(has=False, full=True)

    def wake(self) -> None:
        """Look again; answer if there is a message."""
        ports = self._ports
        if ports.pop.popping.has_message(self._ask, ports.now_ms()):
            self._answer(has=True)

    def expire(self) -> None:
        """Answer that there is no message."""
        self._answer(has=False)

    def _answer(self, *, has: bool, full: bool = False) -> None:
        self._answered = True
        self._call.answer(0, encode(NotificationResponse(has, full)))


def polling_info(ports: PopPorts, call: Call, request: PollingInfoRequest) -> None:
    """200055: how many pops and questions wait for that topic, group and queue id."""
    check_topic(ports, call, request.topic, request.queue_id)
    check_group(ports, call, request.consumer_group, request.topic)
    key = (request.topic, request.consumer_group, request.queue_id)
    number = ports.pop.waits.number_of(key)
    call.answer(0, encode(PollingInfoResponse(number)))


def rollback(_: PopPorts, call: Call, request: None) -> None:
    """200056: RocketMQ moves pops from its key-value store back to files; ours are in the log."""
    call.answer()


def _needs(request: NotificationRequest | PollingInfoRequest) -> Needs:
    return to_consume(request.topic, request.consumer_group)


ROUTES: dict[int, Handler[PopPorts, Any]] = {
    RequestCode.NOTIFICATION: Handler(
        Who.LEADER, fields(NotificationRequest), _needs, notification
    ),
    RequestCode.POLLING_INFO: Handler(Who.LEADER, fields(PollingInfoRequest), _needs, polling_info),
    RequestCode.POP_ROLLBACK: Handler(Who.LEADER, nothing, ADMIN, rollback),
}
