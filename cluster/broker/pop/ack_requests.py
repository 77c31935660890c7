"""Done with, or hidden for longer: 200051, 200151, 200053 (docs/spec/remoting.md 5).

Answered when the log has it. A handle whose checkpoint is gone (acknowledged already, or its time
was over) is answered 0 for an acknowledgement, as RocketMQ does, and 208 for more time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.broker.kernel.net.decisions import decided
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.topic_checks import check_queue
from cluster.broker.pop.decisions import PopDecision
from cluster.broker.pop.ports import PopPorts
from cluster.core.access.needs import Needs, join, to_consume
from cluster.core.pop.handles import Handle, read_handle
from cluster.core.pop.names import ORDER_QUEUE, popped_from, real_topic
from cluster.core.pop.records import (
    Acked,
    OrderAcked,
    OrderHidden,
    Place,
    PopRecord,
    Taken,
)
from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import encode
from cluster.protocol.pop_headers import (
    AckRequest,
    AckRow,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    read_acks,
)

INVISIBLE_MS_MAX = 3 * 24 * 3600 * 1000


def ack(ports: PopPorts, request: AckRequest) -> PopDecision:
    """200051: one message."""
    handle = _handle(request.extra_info)
    topic = _topic(request.topic, request.consumer_group, handle.marker)
    place = Place(request.consumer_group, topic, request.queue_id)
    not_there = _not_there(ports, place, request.offset)
    if not_there is not None:
        return not_there
    if handle.is_ordered:
        if _is_given(ports, place, handle.pop_ms):
            return PopDecision(_ok, (OrderAcked(place, handle.pop_ms, request.offset),))
        return PopDecision(_ok)
    made = _acked(ports, place, handle.start, handle.pop_ms, (request.offset,))
    return PopDecision(_ok, () if made is None else (made,))


def batch_ack(ports: PopPorts, rows: list[AckRow]) -> PopDecision:
    """200151: messages of several checkpoints; 208 when none is named."""
    if not rows:
        return _no_message("the batch ack names no message")
    made: list[PopRecord] = []
    for row in rows:
        topic = _topic(row.topic, row.consumer_group, row.marker)
        place = Place(row.consumer_group, topic, row.queue)
        if row.revive_queue != ORDER_QUEUE:
            acked = _acked(ports, place, row.start, row.pop_ms, row.offsets)
            made += [] if acked is None else [acked]
        elif _is_given(ports, place, row.pop_ms):
            made += [OrderAcked(place, row.pop_ms, offset) for offset in row.offsets]
    return PopDecision(_ok, tuple(made))


def _ok(call: Call) -> None:
    call.answer()


def _no_message(remark: str) -> PopDecision:
    return PopDecision(lambda call: call.answer(ResponseCode.NO_MESSAGE, remark=remark))


def _acked(
    ports: PopPorts, place: Place, start: int, pop_ms: int, offsets: tuple[int, ...]
) -> Acked | None:
    """The acknowledgement to log; None when the group holds none of these messages any more."""
    found = ports.state.pop.held.find(place, start, pop_ms)
    if found is None:
        return None
    address, held = found
    left = tuple(offset for offset in offsets if offset in held.left)
    if not left:
        return None
    return Acked(place, address, start, pop_ms, left, ports.config.broker_name)


def _is_given(ports: PopPorts, place: Place, pop_ms: int) -> bool:
    """True if that pop is the last one that the group got from an ordered queue."""
    row = ports.state.pop.ordered.get(place)
    return row is not None and row.taken.pop_ms == pop_ms


def change_invisible_time(ports: PopPorts, request: ChangeInvisibleTimeRequest) -> PopDecision:
    """200053: a checkpoint of its own for this message from now on; the old handle is void."""
    handle = _handle(request.extra_info)
    if not 0 <= request.invisible_time <= INVISIBLE_MS_MAX:
        raise InvalidRequest(
            f"invisibleTime {request.invisible_time} is impossible; give 0 to {INVISIBLE_MS_MAX} ms"
        )
    topic = _topic(request.topic, request.consumer_group, handle.marker)
    place = Place(request.consumer_group, topic, request.queue_id)
    not_there = _not_there(ports, place, request.offset)
    if not_there is not None:
        return not_there
    return (_hidden_ordered if handle.is_ordered else _hidden)(ports, place, handle, request)


def _hidden(
    ports: PopPorts, place: Place, handle: Handle, request: ChangeInvisibleTimeRequest
) -> PopDecision:
    offset, now_ms = request.offset, ports.now_ms()
    acked = _acked(ports, place, handle.start, handle.pop_ms, (offset,))
    if acked is None or (acked.address, offset) in ports.pop.settling:
        return _no_message("the handle is void: its time is over, or it was used")
    broker = ports.config.broker_name
    taken = Taken(place, offset, now_ms, request.invisible_time, (offset,), broker_name=broker)
    answer = ChangeInvisibleTimeResponse(now_ms, request.invisible_time, handle.revive_queue)
    return PopDecision(_told(answer), (taken, acked), handle.revive_queue)


def _hidden_ordered(
    ports: PopPorts, place: Place, handle: Handle, request: ChangeInvisibleTimeRequest
) -> PopDecision:
    if not _is_given(ports, place, handle.pop_ms):
        return _no_message("the handle is void: the queue went on")
    visible_ms = ports.now_ms() + request.invisible_time
    hidden = OrderHidden(place, handle.pop_ms, request.offset, visible_ms)
    answer = ChangeInvisibleTimeResponse(
        handle.pop_ms, visible_ms - handle.pop_ms, handle.revive_queue
    )
    return PopDecision(_told(answer), (hidden,), handle.revive_queue)


def _told(answer: ChangeInvisibleTimeResponse) -> Callable[[Call], None]:
    return lambda call: call.answer(0, encode(answer))


def _not_there(ports: PopPorts, place: Place, offset: int) -> PopDecision | None:
    """208, as RocketMQ answers for an offset that the queue does not have; else None."""
    check_queue(ports.state.topics, place.topic, place.queue)
    low, high = ports.queues.bounds(place.topic, place.queue)
    if low <= offset < high:
        return None
    return _no_message(
        f"offset {offset} of {place.topic} {place.queue} is illegal: it has {low} to {high}"
    )


def _handle(text: str) -> Handle:
    try:
        return read_handle(text)
    except ValueError as error:
        raise InvalidRequest(f"extraInfo cannot be read: {error}") from None


def _topic(topic: str, group: str, marker: str) -> str:
    try:
        return real_topic(topic, group, marker)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def _read_rows(frame: Frame) -> list[AckRow]:
    return read_acks(frame.body)


def _needs(request: AckRequest | ChangeInvisibleTimeRequest | AckRow) -> Needs:
    """The right to consume the group's topic; the request may name the retry topic instead."""
    group = request.consumer_group
    return to_consume(popped_from(request.topic, group), group)


def _needs_of_rows(rows: list[AckRow]) -> Needs:
    return join(_needs(row) for row in rows)


ROUTES: dict[int, Handler[PopPorts, Any]] = {
    RequestCode.ACK_MESSAGE: Handler(Who.LEADER, fields(AckRequest), _needs, decided(ack)),
    RequestCode.BATCH_ACK_MESSAGE: Handler(
        Who.LEADER, _read_rows, _needs_of_rows, decided(batch_ack)
    ),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Handler(
        Who.LEADER, fields(ChangeInvisibleTimeRequest), _needs, decided(change_invisible_time)
    ),
}
