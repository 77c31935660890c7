"""Serves pop (200050), which hides messages for a while, and peek (200052); RocketMQ 5's rules.

Source: docs/spec/remoting.md 5.

messages           0     clients make receipt handles of the header; retried messages carry theirs
no message         suspended until one comes, or 210 when pollTime is over; 209: too many wait
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.wanted import EVERYTHING
from cluster.broker.kernel.write.state_writer import ensure_group
from cluster.broker.pop.asking import WaitingAsk, attempt_of, check_group, check_topic, wanted_of
from cluster.broker.pop.popping import Ask, Found
from cluster.broker.pop.ports import PopPorts
from cluster.broker.pop.recode import under_topic
from cluster.core.access.needs import Needs, to_consume
from cluster.core.pop.handles import (
    Handle,
    message_offset_info,
    order_count_info,
    start_offset_info,
)
from cluster.core.pop.held import HELD_MAX
from cluster.core.pop.names import ORDER_QUEUE, REVIVE_QUEUES, marker_of
from cluster.core.topics import RETRY_PREFIX
from cluster.errors import (
    ClusterError,
    InvalidRequest,
    NotLeader,
    Outcome,
    QueueFull,
)
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.headers import encode
from cluster.protocol.pop_headers import PeekRequest, PopRequest, PopResponse
from commitlog.errors import StoreError

if TYPE_CHECKING:
    from cluster.broker.pop.service import PopService

_log = logging.getLogger(__name__)

COUNT_MAX: Final = 32  # messages of one pop
INVISIBLE_MS_MAX: Final = 3 * 24 * 3600 * 1000  # as of RocketMQ's timers, which bring them back
TOO_LATE_MS: Final = 500  # a request so long after the end of its poll time is not served


def pop(ports: PopPorts, call: Call, request: PopRequest) -> None:
    """Serve 200050: answers once the checkpoints that will bring the messages back are logged."""
    now_ms = ports.now_ms()
    born_ms = request.born_time or now_ms
    if request.poll_time >= 0 and now_ms - born_ms - request.poll_time > TOO_LATE_MS:
        code = ResponseCode.POLLING_TIMEOUT
        call.answer(code, encode(PopResponse(now_ms, 0, 0, 0)), remark="pop message is too late")
        return
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
    waiting = WaitingPop(ports, call, ask, min(seconds, ports.config.long_poll_seconds_max))

    def created(error: Exception | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            begin()

    def begin() -> None:
        ports.derived.when_shown(
            ports.derived.applied,
            lambda error: call.refuse(error) if error else call.guarded(waiting.begin),
        )

    if ports.state.groups.get(ask.group) is None:
        ensure_group(ports.state, ports.writer, ask.group, created)
    else:
        begin()


class WaitingPop(WaitingAsk):
    """One pop request: looks for messages, waits if there are none, answers once."""

    @property
    def _pop(self) -> PopService:
        return self._ports.pop

    def begin(self) -> None:
        """Look for messages; wait when there are none. Raises NotLeader, and as `_look`."""
        ports = self._ports
        if not ports.leadership.leads:  # it ended while what is applied was dispatched
            raise NotLeader("", ports.leader_address())
        if self._judged_again():
            return
        found = self._look()
        if self._answered:
            return
        if self._seconds <= 0:
            self._nothing(ResponseCode.POLLING_TIMEOUT)
        elif not self._pop.waits.suspend(self, self._seconds):
            self._nothing(ResponseCode.POLLING_FULL)
        else:
            self._look_again_later(found)

    def wake(self) -> None:
        """Look again, as messages may have come; not if this node no longer leads: the end of a
        leadership has the request routed again.
        """
        if not self._ports.leadership.leads or self._judged_again():
            return
        try:
            self._look_again_later(self._look())
        except Exception as error:
            self._answered = True
            if not isinstance(error, ClusterError | StoreError):
                self._ports.owned.spared("a waiting pop failed")
            self._call.refuse(error)

    def expire(self) -> None:
        """Answer 210: no message came within pollTime."""
        self._nothing(ResponseCode.POLLING_TIMEOUT)

    def _look_again_later(self, found: Found) -> None:
        """Plan another look: this one stopped before the last queue, or a blocked queue opens."""
        if self.settled:
            return
        ports = self._ports
        if found.blocked_ms:
            wait = max((found.blocked_ms - ports.now_ms()) / 1000, 0.001)
            self._call.later(wait, self._woken)
        elif found.rest and found.parts:
            self._call.later(0, self._woken)

    def _woken(self) -> None:
        if not self.settled:
            self.wake()

    def _look(self) -> Found:
        """Take the available messages, and log them. Raises the error for the client."""
        ports, pop, ask = self._ports, self._pop, self._ask
        if len(ports.state.pop.held) >= HELD_MAX:
            self._answered = True
            raise QueueFull(f"{HELD_MAX} pops are not acknowledged yet; acknowledge some first")
        pop_ms = ports.now_ms()
        found = pop.popping.look(ask, pop_ms)
        if not found.parts:
            return found
        revive_queue = ORDER_QUEUE if ask.is_ordered else pop.next_queue() % REVIVE_QUEUES
        self._answered = found.messages > 0
        busy = {part.place for part in found.parts} if ask.is_ordered else set()

        def settled(error: Exception | None) -> None:
            pop.popping.busy.done(busy, epoch)
            if error is not None:
                (pop.popping.rewind if _is_certain(error) else pop.popping.settled)(found)
                if self._answered:
                    self._call.refuse(error)
                return
            pop.popping.settled(found)
            pop.reviving.arm()
            if self._answered:
                self._call.guarded(lambda: self._answer(found, pop_ms, revive_queue))

        epoch = pop.popping.busy.begin(busy)
        try:
            pop.writer.write(pop.popping.records(ask, found, pop_ms), revive_queue, settled)
        except QueueFull as full:
            settled(full)
        return found

    def _answer(self, found: Found, pop_ms: int, revive_queue: int) -> None:
        ask, given = self._ask, [part for part in found.parts if part.records]
        counts = None
        if ask.is_ordered:
            counts = ";".join(self._counts(part.place) for part in given)
        ext = PopResponse(
            pop_ms,
            ask.invisible_ms,
            revive_queue,
            found.rest,
            start_offset_info([(p.place.topic, p.place.queue, p.start) for p in given]),
            message_offset_info([(p.place.topic, p.place.queue, p.offsets) for p in given]),
            counts,
        )
        body: list[bytes | memoryview] = []
        broker = self._ports.config.broker_name
        for part in given:
            place = part.place
            if not place.topic.startswith(RETRY_PREFIX) or place.topic == ask.topic:
                body += part.records
                continue
            for offset, record in zip(part.offsets, part.records, strict=True):
                handle = Handle(
                    part.start,
                    pop_ms,
                    ask.invisible_ms,
                    revive_queue,
                    marker_of(place.topic),
                    broker,
                    place.queue,
                    offset,
                )
                body.append(under_topic(record, ask.topic, handle))
        self._call.answer(0, encode(ext), b"".join(body), "FOUND")

    def _counts(self, place: object) -> str:
        row = self._ports.state.pop.ordered.get(place)  # type: ignore[arg-type]
        if row is None:
            return ""
        taken = row.taken
        return order_count_info(
            taken.place.topic, taken.place.queue, row.counts, len(taken.offsets)
        )

    def _nothing(self, code: int) -> None:
        self._answered = True
        ext = PopResponse(self._ports.now_ms(), self._ask.invisible_ms, 0, 0)
        self._call.answer(code, encode(ext), remark="NO_MESSAGE_IN_QUEUE")


def _is_certain(error: Exception) -> bool:
    """True if the write certainly did not happen, by the `outcome` of an error of log or broker."""
    outcome = getattr(error, "outcome", None)
    return getattr(outcome, "value", "") == Outcome.NOT_DONE.value


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
    RequestCode.POP_MESSAGE: Handler(Who.LEADER, fields(PopRequest), _needs, pop),
    RequestCode.PEEK_MESSAGE: Handler(Who.LEADER, fields(PeekRequest), _needs, peek),
}
