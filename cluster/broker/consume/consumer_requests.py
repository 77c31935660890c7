"""Consumers' requests: offsets (14, 15) and ends (29-32); docs/spec/remoting.md 2.3."""

from __future__ import annotations

from typing import Any

from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.kernel.net.decisions import Answer, Step, WhenCurrent, decided
from cluster.broker.kernel.net.offset_decisions import OffsetCommit, WhenCommitted
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.topic_checks import check_queue
from cluster.core.access.needs import Needs, to_consume
from cluster.core.topics import group_name_error
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    TimestampResponse,
    UpdateConsumerOffsetRequest,
    encode,
)


def query_offset(
    ports: ConsumePorts, request: QueryConsumerOffsetRequest
) -> WhenCurrent[ConsumePorts]:
    """14: the group's next offset. Outstanding commits of the group are logged first."""
    group, topic, queue_id = request.consumer_group, request.topic, request.queue_id

    def look() -> Step[ConsumePorts]:
        offset = ports.state.offsets.get(group, topic, queue_id)
        found = _first_offset(ports, request) if offset is None else offset
        return Answer(lambda call: call.answer(0, encode(OffsetResponse(found))))

    return WhenCurrent(lambda: WhenCommitted(group, look, is_read=True))


def _first_offset(ports: ConsumePorts, request: QueryConsumerOffsetRequest) -> int:
    """First offset of a group that never committed: 0 in a young queue, else NotFound.

    Source: docs/spec/remoting.md 2.3.
    """
    if request.set_zero_if_not_found and _is_young(ports, request.topic, request.queue_id):
        return 0
    raise NotFound(
        f"the group {request.consumer_group} has no offset for {request.topic} yet; start from the "
        "first or the last"
    )


def _is_young(ports: ConsumePorts, topic: str, queue_id: int) -> bool:
    """Does the queue begin at 0, with a first message that counts as in memory?"""
    queue = ports.derived.queue(topic, queue_id)
    if queue is None or queue.max_offset == 0:
        return True
    if queue.min_offset > 0:
        return False
    first = queue.read(0, 1)[0]
    return ports.log.store.end_position - first.physical_offset <= ports.young_bytes_max


def update_offset(
    ports: ConsumePorts, request: UpdateConsumerOffsetRequest
) -> OffsetCommit | Answer:
    """15: answered, if an answer is wanted, when the log has it."""
    wrong = group_name_error(request.consumer_group)
    if wrong is not None:
        raise InvalidRequest(wrong)
    check_queue(ports.state.topics, request.topic, request.queue_id)
    if request.commit_offset < 0:
        raise InvalidRequest(f"the offset {request.commit_offset} is impossible; send 0 or more")
    place = request.consumer_group, request.topic, request.queue_id
    if request.advance_only:
        newest = ports.offsets.newest(*place)
        if newest is not None and request.commit_offset <= newest:
            return Answer(_no_answer)  # a oneway request: nobody waits
    return OffsetCommit(*place, request.commit_offset)


def _no_answer(call: Call) -> None:
    pass


def max_offset(ports: ConsumePorts, call: Call, request: QueueRequest) -> None:
    """30: the offset that the next message will get."""
    check_queue(ports.state.topics, request.topic, request.queue_id)
    call.when_current(lambda: _answer_offset(call, _bounds(ports, call, request)[1]))


def min_offset(ports: ConsumePorts, call: Call, request: QueueRequest) -> None:
    """31: the offset of the oldest message."""
    check_queue(ports.state.topics, request.topic, request.queue_id)
    call.when_current(lambda: _answer_offset(call, _bounds(ports, call, request)[0]))


def search_offset(ports: ConsumePorts, call: Call, request: SearchOffsetRequest) -> None:
    """29: LOWER: the first message at or after a time; UPPER: the last at or before it."""
    check_queue(ports.state.topics, request.topic, request.queue_id)

    def look() -> None:
        queue = ports.derived.queue(request.topic, request.queue_id)
        if queue is None:
            _answer_offset(call, 0)
            return
        upper = request.boundary_type.upper() == "UPPER"
        store_time = ports.reader.store_time
        _answer_offset(call, queue.offset_by_time(request.timestamp, store_time, upper=upper))

    call.when_current(look)


def earliest_store_time(ports: ConsumePorts, call: Call, request: QueueRequest) -> None:
    """32: when the oldest message of a queue was stored, -1 when there is none."""
    check_queue(ports.state.topics, request.topic, request.queue_id)

    def look() -> None:
        queue = ports.derived.queue(request.topic, request.queue_id)
        time_ms = -1
        if queue is not None and queue.max_offset > queue.min_offset:
            first = queue.read(queue.min_offset, 1)[0]
            time_ms = ports.reader.store_time(first.physical_offset)
        call.answer(0, encode(TimestampResponse(time_ms)))

    call.when_current(look)


def _bounds(ports: ConsumePorts, call: Call, request: QueueRequest) -> tuple[int, int]:
    return ports.queues.bounds(request.topic, request.queue_id)


def _answer_offset(call: Call, offset: int) -> None:
    call.answer(0, encode(OffsetResponse(offset)))


def _needs_of_group(request: QueryConsumerOffsetRequest | UpdateConsumerOffsetRequest) -> Needs:
    return to_consume(request.topic, request.consumer_group)


def _needs_of_queue(request: QueueRequest | SearchOffsetRequest) -> Needs:
    return to_consume(request.topic)


ROUTES: dict[int, Handler[ConsumePorts, Any]] = {
    RequestCode.QUERY_CONSUMER_OFFSET: Handler(
        Who.LEADER, fields(QueryConsumerOffsetRequest), _needs_of_group, decided(query_offset)
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: Handler(
        Who.LEADER,
        fields(UpdateConsumerOffsetRequest),
        _needs_of_group,
        decided(update_offset),
    ),
    RequestCode.GET_MAX_OFFSET: Handler(
        Who.LEADER, fields(QueueRequest), _needs_of_queue, max_offset
    ),
    RequestCode.GET_MIN_OFFSET: Handler(
        Who.LEADER, fields(QueueRequest), _needs_of_queue, min_offset
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Handler(
        Who.LEADER, fields(SearchOffsetRequest), _needs_of_queue, search_offset
    ),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Handler(
        Who.LEADER, fields(QueueRequest), _needs_of_queue, earliest_store_time
    ),
}
