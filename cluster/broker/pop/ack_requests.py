"""Done with, or hidden for longer: 200051, 200151, 200053 (docs/spec/remoting.md 5).

Answered when the log has it. A handle whose checkpoint is gone (acknowledged already, or its time
was over) is answered 0 for an acknowledgement, as RocketMQ does, and 208 for more time.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.topic_checks import check_queue
from cluster.broker.pop.ports import PopPorts
from cluster.core.access.needs import Needs, join, to_consume
from cluster.core.pop.handles import Handle, read_handle
from cluster.core.pop.held import UNACKED_MAX
from cluster.core.pop.names import ORDER_QUEUE, popped_from, real_topic
from cluster.core.pop.records import (
    Acked,
    OrderAcked,
    OrderHidden,
    Place,
    PopRecord,
    Taken,
)
from cluster.errors import InvalidRequest, QueueFull
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


def ack(ports: PopPorts, call: Call, request: AckRequest) -> None:
    """200051: one message."""
    handle = _handle(request.extra_info)
    topic = _topic(request.topic, request.consumer_group, handle.marker)
    place = Place(request.consumer_group, topic, request.queue_id)
    if not _is_there(ports, call, place, request.offset):
        return
    if handle.is_ordered:
        if _is_given(ports, call, place, handle.pop_ms):
            _write(ports, call, [OrderAcked(place, handle.pop_ms, request.offset)], [place])
        else:
            call.answer()
        return
    made = _acked(ports, call, place, handle.start, handle.pop_ms, (request.offset,))
    if made is None:
        call.answer()
    else:
        _write(ports, call, [made])


def batch_ack(ports: PopPorts, call: Call, rows: list[AckRow]) -> None:
    """200151: messages of several checkpoints; 208 when none is named."""
    if not rows:
        call.answer(ResponseCode.NO_MESSAGE, remark="the batch ack names no message")
        return
    made: list[PopRecord] = []
    ordered: list[Place] = []
    for row in rows:
        topic = _topic(row.topic, row.consumer_group, row.marker)
        place = Place(row.consumer_group, topic, row.queue)
        if row.revive_queue == ORDER_QUEUE:
            if not _is_given(ports, call, place, row.pop_ms):
                continue
            ordered.append(place)
            made += [OrderAcked(place, row.pop_ms, offset) for offset in row.offsets]
        else:
            made += _acked_row(ports, call, place, row)
    if made:
        _write(ports, call, made, ordered)
    else:
        call.answer()


def _acked_row(ports: PopPorts, call: Call, place: Place, row: AckRow) -> list[PopRecord]:
    made = _acked(ports, call, place, row.start, row.pop_ms, row.offsets)
    return [] if made is None else [made]


def _acked(
    ports: PopPorts, call: Call, place: Place, start: int, pop_ms: int, offsets: tuple[int, ...]
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


def _is_given(ports: PopPorts, call: Call, place: Place, pop_ms: int) -> bool:
    """True if that pop is the last one that the group got from an ordered queue."""
    row = ports.state.pop.ordered.get(place)
    return row is not None and row.taken.pop_ms == pop_ms


def change_invisible_time(ports: PopPorts, call: Call, request: ChangeInvisibleTimeRequest) -> None:
    """200053: a checkpoint of its own for this message from now on; the old handle is void."""
    handle = _handle(request.extra_info)
    if not 0 <= request.invisible_time <= INVISIBLE_MS_MAX:
        raise InvalidRequest(
            f"invisibleTime {request.invisible_time} is impossible; give 0 to {INVISIBLE_MS_MAX} ms"
        )
    topic = _topic(request.topic, request.consumer_group, handle.marker)
    place = Place(request.consumer_group, topic, request.queue_id)
    if not _is_there(ports, call, place, request.offset):
        return
    if handle.is_ordered:
        _hide_ordered(ports, call, place, handle, request)
    else:
        _hide(ports, call, place, handle, request)


def _hide(
    ports: PopPorts, call: Call, place: Place, handle: Handle, request: ChangeInvisibleTimeRequest
) -> None:
    offset = request.offset
    settling, now_ms = ports.pop.settling, ports.now_ms()
    acked = _acked(ports, call, place, handle.start, handle.pop_ms, (offset,))
    key = (acked.address if acked is not None else -1, offset)
    if acked is None or key in settling:
        call.answer(
            ResponseCode.NO_MESSAGE, remark="the handle is void: its time is over, or it was used"
        )
        return
    broker = ports.config.broker_name
    taken = Taken(place, offset, now_ms, request.invisible_time, (offset,), broker_name=broker)

    def settled(error: Exception | None) -> None:
        settling.done([key], epoch)
        if error is not None:
            call.refuse(error)
            return
        ports.pop.reviving.arm()
        answer = ChangeInvisibleTimeResponse(now_ms, request.invisible_time, handle.revive_queue)
        call.answer(0, encode(answer))

    epoch = settling.begin([key])
    try:
        ports.pop.writer.write([taken, acked], handle.revive_queue, settled)
    except QueueFull as full:
        settled(full)


def _hide_ordered(
    ports: PopPorts, call: Call, place: Place, handle: Handle, request: ChangeInvisibleTimeRequest
) -> None:
    if not _is_given(ports, call, place, handle.pop_ms):
        call.answer(ResponseCode.NO_MESSAGE, remark="the handle is void: the queue went on")
        return
    visible_ms, busy = ports.now_ms() + request.invisible_time, ports.pop.popping.busy

    def settled(error: Exception | None) -> None:
        busy.done([place], epoch)
        if error is not None:
            call.refuse(error)
            return
        answer = ChangeInvisibleTimeResponse(
            handle.pop_ms, visible_ms - handle.pop_ms, handle.revive_queue
        )
        call.answer(0, encode(answer))
        ports.pop.waits.wake(place.topic)

    hidden = OrderHidden(place, handle.pop_ms, request.offset, visible_ms)
    epoch = busy.begin([place])
    try:
        ports.pop.writer.write([hidden], handle.revive_queue, settled)
    except QueueFull as full:
        settled(full)


def _write(
    ports: PopPorts, call: Call, records: list[PopRecord], ordered: list[Place] | None = None
) -> None:
    """Log the records; no other request decides about these messages until they are applied."""
    pop, held = ports.pop, ports.state.pop.held
    keys = [(r.address, offset) for r in records if isinstance(r, Acked) for offset in r.offsets]
    places = ordered or []
    # Who waits gets no word of its own when a queue opens, or a client holds less than it may.
    open_again = {place.topic for place in places}
    open_again |= {r.place.topic for r in records if held.unacked(r.place) >= UNACKED_MAX}

    def settled(error: Exception | None) -> None:
        pop.settling.done(keys, settling)
        pop.popping.busy.done(places, busy)
        call.done(error)
        for topic in open_again if error is None else ():
            pop.waits.wake(topic)

    settling, busy = pop.settling.begin(keys), pop.popping.busy.begin(places)
    try:
        pop.writer.write(records, pop.next_queue(), settled)
    except QueueFull as full:
        settled(full)


def _is_there(ports: PopPorts, call: Call, place: Place, offset: int) -> bool:
    """Else 208 is answered, as RocketMQ does for an offset that the queue does not have."""
    check_queue(ports.state.topics, place.topic, place.queue)
    low, high = ports.queues.bounds(place.topic, place.queue)
    if low <= offset < high:
        return True
    remark = f"offset {offset} of {place.topic} {place.queue} is illegal: it has {low} to {high}"
    call.answer(ResponseCode.NO_MESSAGE, remark=remark)
    return False


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
    RequestCode.ACK_MESSAGE: Handler(Who.LEADER, fields(AckRequest), _needs, ack),
    RequestCode.BATCH_ACK_MESSAGE: Handler(Who.LEADER, _read_rows, _needs_of_rows, batch_ack),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Handler(
        Who.LEADER, fields(ChangeInvisibleTimeRequest), _needs, change_invisible_time
    ),
}
