"""Topics and groups as administrators and clients see them (docs/spec/remoting.md 2.8)."""

from __future__ import annotations

import logging
from typing import Any

from cluster.broker.admin.expected_rows import check_expected
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.decisions import Decision, WhenSettled, decided
from cluster.broker.kernel.net.request_bodies import existing_topic, json_object, json_rows
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.topic_checks import find_topic
from cluster.broker.kernel.write.acknowledging import check_attribute
from cluster.core.access.needs import ADMIN, Needs, to_know
from cluster.core.internal_topics import OWN_TOPICS, TopicsChanged
from cluster.core.pop.names import retry_topics_of
from cluster.core.statistics import TOPIC_PUT_NUMS
from cluster.core.topics import (
    DEFAULT_TOPIC,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    QUEUES_MAX,
    TopicConfig,
    attribute_error,
    topic_name_error,
)
from cluster.errors import InvalidRequest, Unauthorized
from cluster.protocol.admin_headers import TopicPageRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import ALTER_ONLY, CreateTopicRequest, TopicRequest
from cluster.protocol.json_body import MessageQueue, dump
from cluster.protocol.topics import QueueBounds, encode_topic_stats
from commitlog.records.names import is_pop_retry

_log = logging.getLogger(__name__)

MQADMIN_QUEUES = 8  # to read and to write, of `mqadmin updateTopic` without -r and -w
PERM_MAX = PERM_INHERIT | PERM_WRITE | PERM_READ


def create_topic(ports: AdminPorts, request: CreateTopicRequest) -> Decision | WhenSettled:
    """17: create or change a topic.

    Stock clients have one request for both; `_is_creation` says which one it takes for a creation.
    While another change of the topic is on its way, the request waits and is judged again: its
    first send may be making it, by which a creation would be dropped that was answered as done.
    Raises InvalidRequest, Unauthorized, IllegalOperation; TopicNotFound for a topic that is only to
    be altered.
    """
    config = TopicConfig(
        request.topic,
        request.read_queue_nums,
        request.write_queue_nums,
        request.perm,
        request.topic_filter_type,
        request.topic_sys_flag,
        request.order,
        _attributes(ports, request),
    )
    _check(config)
    if request.intent == ALTER_ONLY:
        existing_topic(ports.state.topics, config.name)
    old = ports.state.topics.get(config.name)
    row = None if old is None else old.to_json()
    check_expected(ports.writer.topics_in_log, config.name, row, request.expected)
    if ports.writer.topics_in_log.is_changing(config.name):
        return WhenSettled(config.name)
    if _is_creation(old, config, request):
        return Decision((TopicsChanged(create=(config,)),))
    return Decision((TopicsChanged(put=(config,), gone=_gone_of(ports, [config])),))


def _read_rows(frame: Frame) -> list[TopicConfig]:
    value = json_object(frame, "a list of topics")
    try:
        return [
            TopicConfig.from_json(row) for row in json_rows(value, "topicConfigList", "topic list")
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(f"a topic of the list cannot be read: {error!r}") from None


def create_topics(ports: AdminPorts, rows: list[TopicConfig]) -> Decision:
    """18: several, all or none, exactly as they are written: only mqadmin sends such a list."""
    for config in rows:
        _check(config)
    if not rows:
        return Decision()
    return Decision((TopicsChanged(put=tuple(rows), gone=_gone_of(ports, rows)),))


def _is_creation(old: TopicConfig | None, row: TopicConfig, request: CreateTopicRequest) -> bool:
    """True for a request that must not change `old`, the topic as it is.

    Automatic creation by a send does not come here. Of those that have no `intent`:

    * mqadmin (and Java's createTopic, when it is given that key) names TBW102 as the default topic
      and means what it says, also fewer queues: no message is hidden by that (topic_changes.py).
    * Other names of a default topic come from libraries that create what their program needs (Go:
      `defaultTopic`, with 8 queues unless told): fewer queues than there are change nothing.

    Raises InvalidRequest for fewer queues that are mqadmin's own default: its user may have asked
    for another perm only. Source: RocketMQ, UpdateTopicSubCommand, and rocketmq-client-go, admin.
    """
    if request.intent is not None or old is None:
        return request.intent != ALTER_ONLY
    fewer = row.read_queues < old.read_queues and row.write_queues < old.write_queues
    if fewer and request.default_topic != DEFAULT_TOPIC:
        _log.info(
            "topic %s stays as it is, with %d queues to write: a client that would create it "
            "asked for %d; `dledger topic alter` shrinks it",
            row.name,
            old.write_queues,
            row.write_queues,
        )
        return True
    if fewer and row.read_queues == row.write_queues == MQADMIN_QUEUES:
        raise InvalidRequest(
            f"the topic {row.name} has {old.write_queues} queues, and {MQADMIN_QUEUES} is what "
            "mqadmin asks for when it is not told; nothing was changed: name the numbers it has "
            f"(-r {old.read_queues} -w {old.write_queues}), or shrink it with dledger topic alter "
            f"{row.name} -q {MQADMIN_QUEUES}"
        )
    return False


def _gone_of(ports: AdminPorts, rows: list[TopicConfig]) -> dict[str, dict[int, int]]:
    return {row.name: gone for row in rows if (gone := _gone(ports, row))}


def _gone(ports: AdminPorts, row: TopicConfig) -> dict[int, int]:
    """Ends of the queues behind the new number to read that retention has emptied."""
    ends = ports.state.queue_ends(row.name, 0)
    return {
        queue: ends[queue]
        for queue in range(row.read_queues, len(ends))
        if ports.queues.bounds(row.name, queue) == (ends[queue], ends[queue])
    }


def _attributes(ports: AdminPorts, request: CreateTopicRequest) -> dict[str, str]:
    """The topic's attributes after the request's `+key=value,-key`."""
    found = ports.state.topics.get(request.topic)
    attributes = dict(found.attributes) if found is not None else {}
    for change in (request.attributes or "").split(","):
        name, _, value = change.partition("=")
        if name.startswith("-"):
            attributes.pop(name[1:], None)
        elif name:
            attributes[name.removeprefix("+")] = value
    return attributes


def _check(config: TopicConfig) -> None:
    wrong = topic_name_error(config.name) or attribute_error(config.attributes)
    if wrong is not None:
        raise InvalidRequest(wrong)
    if config.name in OWN_TOPICS:
        raise Unauthorized(f"the topic {config.name} is the broker's own; name another one")
    for number in (config.read_queues, config.write_queues):
        if not 0 <= number <= QUEUES_MAX:
            raise InvalidRequest(f"{number} queues are impossible; give 0 to {QUEUES_MAX}")
    if config.queues < 1:
        raise InvalidRequest(
            "a topic without a queue is none; give at least one to read or to write"
        )
    check_attribute(config)
    if not 0 <= config.perm <= PERM_MAX:
        raise InvalidRequest(f"perm {config.perm} is impossible; give a sum of 4, 2 and 1")


def delete_topic(ports: AdminPorts, request: TopicRequest) -> Decision:
    """215: remove the topic's row; its messages stay in the log until they are old.

    One that exists is deleted whatever its name. One that does not is no error, neither by the
    name of a V2 retry topic: it has a "+", which no client can give to a topic. The topics in which
    its messages come back to groups that pop go with it.
    """
    wrong = topic_name_error(request.topic)
    exists = ports.state.topics.get(request.topic) is not None
    if wrong is not None and not exists and not is_pop_retry(request.topic):
        raise InvalidRequest(wrong)
    if request.topic in OWN_TOPICS:
        raise Unauthorized(f"the topic {request.topic} is the broker's own; name another one")
    state = ports.state
    groups = {str(row["groupName"]) for row in state.groups}
    groups.update(name for name, _ in state.offsets.groups())
    names = {row.name for row in state.topics}
    retries = retry_topics_of(request.topic, groups, names) if exists else []
    return Decision((TopicsChanged(delete=(request.topic, *retries)),))


def topic_config(ports: AdminPorts, call: Call, request: TopicRequest) -> None:
    """351: one row. Raises TopicNotFound also for a V2 retry topic, and InvalidRequest."""
    topics = ports.state.topics
    found = topics.get(request.topic)
    if found is None:
        find = find_topic if is_pop_retry(request.topic) else existing_topic
        found = find(topics, request.topic)
    call.answer(0, body=dump(found.to_json()))


def all_topics(ports: AdminPorts, call: Call, request: TopicPageRequest) -> None:
    """21: the whole table; with `maxTopicNum`, a page of it."""
    topics = ports.state.topics
    rows = {config.name: config.to_json() for config in topics}
    ext: dict[str, str] = {}
    if request.max_topic_num is not None:
        names = sorted(rows)
        first = max(request.topic_seq, 0)
        page = names[first : first + max(request.max_topic_num, 0)]
        ext["totalTopicNum"] = str(len(names))
        rows = {name: rows[name] for name in page}
    body = {"dataVersion": topics.version.to_json(), "topicConfigTable": rows}
    call.answer(0, ext, dump(body))


def topic_stats(ports: AdminPorts, call: Call, request: TopicRequest) -> None:
    """202: bounds of every queue and when it was last written."""
    config = existing_topic(ports.state.topics, request.topic)

    def look() -> None:
        bounds = {}
        for queue_id in range(config.queues):
            low, high = ports.queues.bounds(config.name, queue_id)
            time_ms = 0
            queue = ports.derived.queue(config.name, queue_id)
            if queue is not None and high > low:
                time_ms = ports.reader.store_time(queue.read(high - 1, 1)[0].physical_offset)
            name = MessageQueue(config.name, ports.config.broker_name, queue_id)
            bounds[name] = QueueBounds(low, high, time_ms)
        tps = ports.statistics.tps(TOPIC_PUT_NUMS, config.name, ports.now())
        call.answer(0, body=encode_topic_stats(bounds, tps))

    call.when_current(look)


def _needs(request: TopicRequest) -> Needs:
    return to_know(request.topic)


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: Handler(
        Who.LEADER, fields(CreateTopicRequest), ADMIN, decided(create_topic)
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Handler(
        Who.LEADER, _read_rows, ADMIN, decided(create_topics)
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: Handler(
        Who.LEADER, fields(TopicRequest), ADMIN, decided(delete_topic)
    ),
    RequestCode.GET_TOPIC_CONFIG: Handler(Who.LEADER, fields(TopicRequest), _needs, topic_config),
    RequestCode.GET_ALL_TOPIC_CONFIG: Handler(
        Who.LEADER, fields(TopicPageRequest), ADMIN, all_topics
    ),
    RequestCode.GET_TOPIC_STATS_INFO: Handler(
        Who.LEADER, fields(TopicRequest), _needs, topic_stats
    ),
}
