"""Messages that consumers send back (36), or send to their retry topic themselves.

    36: position, group ─► the record there ─► plan_retry ─┬► %RETRY%group, deferred at its level
                                                           └► %DLQ%group, at once
    a send to %RETRY%group (36 failed, or an ordered group gave up) ─► the same, by its own header

Both topics are created with their first message, in the same batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cluster.broker.delay.delays import Delays
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.placement import Placement
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.core.access.needs import Needs, in_group, to_consume
from cluster.core.delay.copies import Pieces, read_pieces
from cluster.core.delay.retries import Retry, dead_properties, plan_retry, times_max
from cluster.core.subscription_groups import new_group
from cluster.core.topics import (
    DLQ_PREFIX,
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
from cluster.protocol.send import SendRequest
from commitlog.records.hosts import unpack_host
from dledger.errors import DledgerError

if TYPE_CHECKING:
    from cluster.broker.delay.ports import DelayPorts
    from cluster.broker.kernel.net.requests import Call

RECORD_EXTRA = 512  # what retries add to a record's properties, about; for the limit in bytes only


class SentBack:
    """One message that came back, in this turn's batch."""

    __slots__ = ("call",)
    outlives: ClassVar[bool] = True

    def __init__(self, call: Call) -> None:
        self.call = call

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Answer the request: stored, or the error."""
        self.call.done(error)


def needs_of_send_back(request: SendBackRequest) -> Needs:
    """The group's right; the message's own topic is checked when the message is found, since the
    copy shows its content.
    """
    return in_group(request.group)


def send_back(ports: DelayPorts, call: Call, request: SendBackRequest) -> None:
    """36: answered when the copy is in the log."""
    wrong = group_name_error(request.group)
    if wrong is not None:
        raise InvalidRequest(wrong)
    group = group_settings(ports, request.group)
    queues = int(group.get("retryQueueNums", 1))
    if queues <= 0:
        call.answer()  # the group wants nothing again
        return
    pieces = _original(ports, call, request.offset)
    host = unpack_host(pieces.store_host)
    retry = plan_retry(
        pieces,
        request.group,
        request.delay_level,
        times_max(group, request.max_reconsume_times),
        encode_offset_id(host.ip, host.port, pieces.position),
    )
    _store(ports, call, retry, queues)


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


def _store(ports: DelayPorts, call: Call, retry: Retry, queues: int) -> None:
    pieces = retry.pieces._replace(store_host=ports.outcomes.host)
    appender = ports.outcomes.appender
    size = len(pieces.body) + len(pieces.properties) + RECORD_EXTRA
    if not appender.has_capacity(size):
        raise QueueFull("the broker has more in flight than its limit; pause, then retry")
    queues = 1 if retry.is_dead else queues
    topic = ensure_topic(ports, retry.topic, queues)
    queue = retry.pieces.position % max(topic.write_queues, 1)
    delays = ports.delays
    place = (
        delays.at_level(retry.level, retry.topic, queue, pieces.properties, pieces.sys_flag)
        if retry.level
        else delays.at_once(retry.topic, queue, topic.queues, pieces.properties, pieces.sys_flag)
    )
    batch = appender.open()
    body = pieces.encode(
        place.topic[1:].decode(),
        place.queue,
        place.properties,
        queue_offset=place.row[place.queue],
        store_ms=batch.stamp_ms,
    )
    place.row[place.queue] += 1
    batch.bodies.append(body)
    batch.size += len(body)
    batch.units.append(SentBack(call))


def group_settings(ports: DelayPorts, group: str) -> Mapping[str, Any]:
    """The group's settings; created with this message where that is allowed.

    Raises GroupNotFound or QueueFull.
    """
    found = ports.state.groups.get(group)
    if found is not None:
        return found
    if not ports.live.now.auto_create_groups:
        raise GroupNotFound(f"the consumer group {group} does not exist; create it first")
    needs_topic = ports.state.topics.get(RETRY_PREFIX + group) is None
    ports.writer.create_group(group, retry_topic=needs_topic, done=_nobody_waits)
    return new_group(group)


def ensure_topic(ports: DelayPorts, name: str, queues: int) -> TopicConfig:
    """The topic, created with this message if it is missing. Raises Unauthorized or QueueFull."""
    found = ports.state.topics.get(name)
    if found is None:
        found = TopicConfig(name, queues, queues)
        ports.writer.create_topic(found, _nobody_waits)
    elif not found.perm & PERM_WRITE:
        raise Unauthorized(
            f"the topic {name} is not writable, its perm is {found.perm}; set perm 6 (mqadmin "
            "updateTopicPerm)"
        )
    return found


def _nobody_waits(error: Exception | None) -> None:
    """The message stands behind the record that creates its topic, in the same batch."""


class RetryTopics:
    """An `Interceptor` for messages that clients send to retry topics themselves."""

    def __init__(self, ports: DelayPorts, delays: Delays) -> None:
        self._ports, self._delays = ports, delays

    def intercept(
        self, request: SendRequest, target: SendTarget, queue: int, stored: bytes, stamp_ms: int
    ) -> Placement | None:
        """A dead letter's place, or None: delayed or not, it may go on.

        Dead is what was tried more often than allowed, and whatever an ordered group gives up
        (docs/spec/store.md 7.6). Raises GroupNotFound, Unauthorized or QueueFull.
        """
        if not target.topic_name.startswith(RETRY_PREFIX):
            return None
        ports, template = self._ports, request.template
        group = target.topic_name[len(RETRY_PREFIX) :]
        settings = group_settings(ports, group)
        tried_max = times_max(settings, template.max_reconsume_times)
        is_ordered = ports.is_ordered(group)
        if template.reconsume_times <= tried_max and not is_ordered:
            return None
        topic = ensure_topic(ports, DLQ_PREFIX + group, 1)
        properties = dead_properties(stored)
        return self._delays.at_once(topic.name, 0, topic.queues, properties, target.sys_flag)
