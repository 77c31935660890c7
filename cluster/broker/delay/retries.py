"""Messages that consumers send back (36).

    36: position, group ─► the record there ─► plan_retry ─┬► %RETRY%group, deferred at its level
                                                           └► %DLQ%group, at once

Both topics are created with their first message, in the same batch. What clients send to retry
topics themselves is looked at on the path of sends (retry_topics.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.broker.delay.decisions import SentAgain, WithNewGroup, WithNewTopic
from cluster.broker.kernel.net.decisions import Decision
from cluster.core.access.needs import Needs, in_group, to_consume
from cluster.core.delay.copies import Pieces, read_pieces
from cluster.core.delay.retries import Retry, plan_retry, times_max
from cluster.core.subscription_groups import new_group
from cluster.core.topics import (
    FORBIDDEN_TO_CLIENTS,
    PERM_WRITE,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    TopicConfig,
    group_name_error,
)
from cluster.errors import (
    GroupNotFound,
    InvalidRequest,
    NotFound,
    QueueFull,
    ServerError,
    Unauthorized,
)
from cluster.protocol.headers import SendBackRequest
from cluster.protocol.offset_id import encode_offset_id
from commitlog.records.hosts import unpack_host

if TYPE_CHECKING:
    from cluster.broker.delay.ports import DelayPorts
    from cluster.broker.kernel.net.requests import Call

RECORD_EXTRA = 512  # what retries add to a record's properties, about; for the limit in bytes only


def needs_of_send_back(request: SendBackRequest) -> Needs:
    """The group's right; the message's own topic is checked when the message is found, since the
    copy shows its content.
    """
    return in_group(request.group)


def send_back(
    ports: DelayPorts, call: Call, request: SendBackRequest
) -> SentAgain | WithNewGroup | WithNewTopic | Decision:
    """36: answered when the copy is in the log."""
    wrong = group_name_error(request.group)
    if wrong is not None:
        raise InvalidRequest(wrong)
    found = group_settings(ports, request.group)
    if found is not None:
        return _retried(ports, call, request, found)
    settings, lacks_topic = new_group(request.group), lacks_retry_topic(ports, request.group)
    return WithNewGroup(
        request.group, lacks_topic, lambda: _retried(ports, call, request, settings)
    )


def _retried(
    ports: DelayPorts, call: Call, request: SendBackRequest, group: Mapping[str, Any]
) -> SentAgain | WithNewTopic | Decision:
    queues = int(group.get("retryQueueNums", 1))
    if queues <= 0:
        return Decision()  # the group wants nothing again
    pieces = _original(ports, call, request.offset)
    host = unpack_host(pieces.store_host)
    retry = plan_retry(
        pieces,
        request.group,
        request.delay_level,
        times_max(group, request.max_reconsume_times),
        encode_offset_id(host.ip, host.port, pieces.position),
    )
    return _stored(ports, retry, queues)


def _original(ports: DelayPorts, call: Call, position: int) -> Pieces:
    """The message that the consumer had; its client takes code 1 as "try another way"."""
    try:
        pieces = read_pieces(ports.reader.record(position))
    except NotFound as error:
        raise ServerError(
            f"the message that came back is not here: {error}; look for it in the topic"
        ) from None
    topic = pieces.topic.decode("utf-8", "replace")
    call.require(to_consume(topic))
    if topic in FORBIDDEN_TO_CLIENTS or topic.startswith(SYSTEM_PREFIX):
        raise ServerError(
            f"the message at {position} is the system's own and cannot come back; send back only "
            "what was pulled from a topic"
        )
    return pieces


def _stored(ports: DelayPorts, retry: Retry, queues: int) -> SentAgain | WithNewTopic:
    pieces = retry.pieces._replace(store_host=ports.outcomes.host)
    size = len(pieces.body) + len(pieces.properties) + RECORD_EXTRA
    if not ports.outcomes.appender.has_capacity(size):
        raise QueueFull("the broker has more in flight than its limit; pause, then retry")
    queues = 1 if retry.is_dead else queues
    found = writable_topic(ports, retry.topic)
    topic = TopicConfig(retry.topic, queues, queues) if found is None else found
    queue = retry.pieces.position % max(topic.write_queues, 1)
    delays = ports.delays

    def copy() -> SentAgain:
        properties, sys_flag = pieces.properties, pieces.sys_flag
        if retry.level:
            place = delays.at_level(retry.level, retry.topic, queue, properties, sys_flag)
        else:
            place = delays.at_once(retry.topic, queue, topic.queues, properties, sys_flag)
        return SentAgain(pieces, place)

    return copy() if found is not None else WithNewTopic(topic, copy)


def group_settings(ports: DelayPorts, group: str) -> Mapping[str, Any] | None:
    """The group's settings; None where it is to be made with this message.

    Raises GroupNotFound.
    """
    found = ports.state.groups.get(group)
    if found is None and not ports.live.now.auto_create_groups:
        raise GroupNotFound(f"the consumer group {group} does not exist; create it first")
    return found


def lacks_retry_topic(ports: DelayPorts, group: str) -> bool:
    """True if messages of the group that come back have no topic yet."""
    return ports.state.topics.get(RETRY_PREFIX + group) is None


def writable_topic(ports: DelayPorts, name: str) -> TopicConfig | None:
    """The topic; None: it is to be made with this message. Raises Unauthorized."""
    found = ports.state.topics.get(name)
    if found is not None and not found.perm & PERM_WRITE:
        raise Unauthorized(
            f"the topic {name} is not writable, its perm is {found.perm}; set perm 6 (mqadmin "
            "updateTopicPerm)"
        )
    return found
