"""Offsets of groups moved by administrators: 222 with 220 to the members, and 314.

The new offsets are in the log before the request is answered and before any member is told. Members
that are told drop what they hold of the queues and commit the new offsets themselves, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.decisions import Answer, Decision, Step, WhenCurrent, decided
from cluster.broker.kernel.net.offset_decisions import OffsetsMoved, WhenCommitted
from cluster.broker.kernel.net.request_bodies import existing_topic, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.core.groups import BROADCASTING
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


def reset_offset(ports: AdminPorts, request: ResetOffsetRequest) -> WhenCurrent[AdminPorts]:
    """222: offsets at a time, at the end, or a given one; code 206 for an unknown group."""
    group, topic = legal_group(request.group), existing_topic(ports.state.topics, request.topic)
    queues = _queues(topic, request)

    def look() -> Step[AdminPorts]:
        online = ports.registry.consumer_group(group)
        stored = ports.state.offsets.of_group(group)
        if online is None and not stored and ports.state.groups.get(group) is None:
            raise ConsumerOffline(
                f"the consumer group {group} is not online and has no offsets; start a consumer of "
                "it, or check the name"
            )
        table = {queue: _target(ports, request, queue) for queue in queues}
        told: Step[AdminPorts] = Answer(
            lambda call: _tell_reset(ports, call, request, topic.name, table)
        )
        return OffsetsMoved(group, topic.name, table, lambda: told) if table else told

    return WhenCurrent(lambda: WhenCommitted(group, look))


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


def _target(ports: AdminPorts, request: ResetOffsetRequest, queue_id: int) -> int:
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


def _tell_reset(
    ports: AdminPorts,
    call: Call,
    request: ResetOffsetRequest,
    topic: str,
    table: Mapping[int, int],
) -> None:
    """Tell the members (220) and the administrator."""
    online = ports.registry.consumer_group(request.group)
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


def clone_offset(ports: AdminPorts, request: CloneOffsetRequest) -> WhenCurrent[AdminPorts]:
    """314: a group takes over another's offsets of a topic, or of all its topics."""
    source, target = legal_group(request.src_group), legal_group(request.dest_group)

    def look() -> Step[AdminPorts]:
        stored = ports.state.offsets.of_group(source)
        names = [request.topic] if request.topic else sorted(stored)
        todo = [
            (name, dict(stored[name]))
            for name in names
            if stored.get(name) and ports.state.topics.get(name) is not None
        ]
        return _all_moved(ports, target, todo)

    return WhenCurrent(lambda: WhenCommitted(source, look))


def _all_moved(
    ports: AdminPorts, group: str, todo: list[tuple[str, dict[int, int]]]
) -> Step[AdminPorts]:
    """One topic after the other, then success. Topics that have these offsets need no step."""
    left = [*itertools.dropwhile(lambda row: _has_all(ports, group, *row), todo)]
    if not left:
        success: Step[AdminPorts] = Decision()
        return WhenCommitted(group, lambda: success)
    topic, table = left[0]
    return OffsetsMoved(group, topic, table, lambda: _all_moved(ports, group, left[1:]))


def _has_all(ports: AdminPorts, group: str, topic: str, table: dict[int, int]) -> bool:
    """True if these are the group's offsets, in the log and by its last wish."""
    return all(
        find(group, topic, queue_id) == offset
        for find in (ports.state.offsets.get, ports.offsets.newest)
        for queue_id, offset in table.items()
    )


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Handler(
        Who.LEADER, fields(ResetOffsetRequest), ADMIN, decided(reset_offset)
    ),
    RequestCode.CLONE_GROUP_OFFSET: Handler(
        Who.LEADER, fields(CloneOffsetRequest), ADMIN, decided(clone_offset)
    ),
}
