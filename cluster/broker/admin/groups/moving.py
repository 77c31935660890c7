"""Offsets of groups moved by administrators: 222 with 220 to the members, and 314.

The new offsets are in the log before the request is answered and before any member is told. Members
that are told drop what they hold of the queues and commit the new offsets themselves, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.request_bodies import existing_topic, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.core.groups import BROADCASTING, ConsumerGroup
from cluster.core.topics import TopicConfig
from cluster.errors import ConsumerOffline, InvalidRequest
from cluster.protocol.admin_headers import CloneOffsetRequest, ResetOffsetRequest
from cluster.protocol.codes import VERSION, RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import encode
from cluster.protocol.json_body import MessageQueue, dump, dump_queue_map

TO_THE_END = -1
ALL_QUEUES = -1
CPP = "CPP"

Step = Callable[[], None]


def reset_offset(ports: AdminPorts, call: Call, request: ResetOffsetRequest) -> None:
    """222: offsets at a time, at the end, or a given one; code 206 for an unknown group."""
    group, topic = legal_group(request.group), existing_topic(ports.state.topics, request.topic)
    queues = _queues(topic, request)

    def look() -> None:
        online = ports.registry.consumer_group(group)
        stored = ports.state.offsets.of_group(group)
        if online is None and not stored and ports.state.groups.get(group) is None:
            raise ConsumerOffline(
                f"the consumer group {group} is not online and has no offsets; start a consumer of "
                "it, or check the name"
            )
        table = {queue: _target(ports, call, request, queue) for queue in queues}
        if not table:
            _reset_told(ports, call, request, topic.name, table, online)
            return
        _commit(ports, call, group, topic.name, table, lambda: moved(table))

    def moved(table: Mapping[int, int]) -> None:
        online = ports.registry.consumer_group(group)
        _reset_told(ports, call, request, topic.name, table, online)

    def flushed(error: Exception | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.guarded(look)

    call.when_current(lambda: ports.offsets.flushed(group, flushed))


def _queues(topic: TopicConfig, request: ResetOffsetRequest) -> range:
    if request.timestamp < TO_THE_END:
        raise InvalidRequest(f"timestamp {request.timestamp} is impossible; give ms, or -1")
    if request.queue_id == ALL_QUEUES:
        return range(topic.write_queues if topic.write_queues else topic.read_queues)
    if not 0 <= request.queue_id < topic.queues:
        raise InvalidRequest(
            f"queue id {request.queue_id} is out of range: the topic {topic.name} has "
            f"{topic.queues} queues"
        )
    return range(request.queue_id, request.queue_id + 1)


def _target(ports: AdminPorts, call: Call, request: ResetOffsetRequest, queue_id: int) -> int:
    """Where the group goes on in one queue. Without force it never goes forward."""
    low, high = ports.queues.bounds(request.topic, queue_id)
    if request.offset is not None and request.offset >= 0:
        if not low <= request.offset <= high:
            raise InvalidRequest(
                f"offset {request.offset} is outside the queue's {low} to {high}; give one inside"
            )
        return request.offset
    offset = high
    queue = ports.derived.queue(request.topic, queue_id)
    if request.timestamp != TO_THE_END and queue is not None:
        offset = queue.offset_by_time(request.timestamp, ports.reader.store_time)
    now = ports.state.offsets.get(request.group, request.topic, queue_id)
    if not request.is_force and now is not None and now < offset:
        return now
    return offset


def _reset_told(
    ports: AdminPorts,
    call: Call,
    request: ResetOffsetRequest,
    topic: str,
    table: Mapping[int, int],
    online: ConsumerGroup | None,
) -> None:
    """Tell the members (220) and the administrator."""
    broker = ports.config.broker_name
    queues = [(MessageQueue(topic, broker, queue), offset) for queue, offset in table.items()]
    body = b'{"offsetTable":' + dump_queue_map(queues) + b"}"
    rows = [{**queue.to_json(), "offset": offset} for queue, offset in queues]
    if online is not None and online.registration.message_model != BROADCASTING:
        for member in online.members.values():
            own = dump({"offsetTable": rows}) if member.info.language == CPP else body
            member.best_channel().answer(_notice(request, own))
    call.answer(0, body=dump({"offsetTable": rows}) if call.frame.language == CPP else body)


def _notice(request: ResetOffsetRequest, body: bytes) -> Frame:
    """220, oneway."""
    return Frame(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        0,
        encode(request),
        body,
        FLAG_ONEWAY,
        language="JAVA",
        version=VERSION,
    )


def clone_offset(ports: AdminPorts, call: Call, request: CloneOffsetRequest) -> None:
    """314: a group takes over another's offsets of a topic, or of all its topics."""
    source, target = legal_group(request.src_group), legal_group(request.dest_group)

    def look() -> None:
        stored = ports.state.offsets.of_group(source)
        names = [request.topic] if request.topic else sorted(stored)
        todo = [
            (name, dict(stored[name]))
            for name in names
            if stored.get(name) and ports.state.topics.get(name) is not None
        ]
        _commit_all(ports, call, target, todo)

    def flushed(error: Exception | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.guarded(look)

    call.when_current(lambda: ports.offsets.flushed(source, flushed))


def _commit_all(
    ports: AdminPorts, call: Call, group: str, todo: list[tuple[str, dict[int, int]]]
) -> None:
    if not todo:
        call.answer()
        return
    topic, table = todo[0]
    _commit(ports, call, group, topic, table, lambda: _commit_all(ports, call, group, todo[1:]))


def _commit(
    ports: AdminPorts, call: Call, group: str, topic: str, table: Mapping[int, int], then: Step
) -> None:
    """Log offsets of one topic and go on when every reader sees them."""
    offsets = ports.offsets

    def commit() -> None:
        for queue, offset in table.items():
            offsets.commit(group, topic, queue, offset)
        offsets.flushed(group, logged)

    def logged(error: Exception | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.guarded(then)

    call.begun(commit)


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Handler(
        Who.LEADER, fields(ResetOffsetRequest), ADMIN, reset_offset
    ),
    RequestCode.CLONE_GROUP_OFFSET: Handler(
        Who.LEADER, fields(CloneOffsetRequest), ADMIN, clone_offset
    ),
}
