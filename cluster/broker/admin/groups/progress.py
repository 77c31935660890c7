"""How far groups are: 208, 303, 317; their offsets as a whole: 13, 43, 308.

Source: docs/spec/remoting.md 2.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cluster.broker.admin.groups.waiting import stored_ms, waiting_ms
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.decisions import Answer, Step, WhenCurrent, decided
from cluster.broker.kernel.net.offset_decisions import WhenCommitted
from cluster.broker.kernel.net.request_bodies import existing_topic, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields, nothing
from cluster.core.access.needs import ADMIN, Needs, in_group, join, to_consume
from cluster.core.statistics import GROUP_GET_NUMS
from cluster.core.topics import TopicConfig
from cluster.protocol.admin_headers import (
    BrokerConsumeStatsRequest,
    ConsumeStatsRequest,
    CorrectionOffsetRequest,
    GroupTopicRequest,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import OffsetResponse, encode
from cluster.protocol.json_body import MessageQueue, dump, dump_queue_map

LONG_MAX = (1 << 63) - 1

Rows = list[tuple[MessageQueue, dict[str, int]]]


def consume_stats(ports: AdminPorts, request: ConsumeStatsRequest) -> WhenCurrent[AdminPorts]:
    """208: broker's and consumer's offset of each queue of the topics that a group consumes."""
    group = legal_group(request.consumer_group)
    wanted = _named_topics(request)

    def look(call: Call) -> None:
        topics = _consumed(ports, group, wanted)
        call.answer(0, body=_stats_body(ports, group, topics))

    return _with_offsets(group, look)


def broker_consume_stats(ports: AdminPorts, call: Call, request: BrokerConsumeStatsRequest) -> None:
    """317: the same of every group, topic by topic, and the sum of all lags."""

    def look() -> None:
        parts, total = [], 0
        for bean in ports.state.groups:
            group = str(bean["groupName"])
            stats = []
            for topic in _consumed(ports, group, ()):
                if request.is_order and not topic.order:
                    continue
                total += sum(_lag(row) for _, row in _rows(ports, group, topic))
                stats.append(_stats_body(ports, group, [topic]))
            if stats:
                parts.append(b"{" + dump(group) + b":[" + b",".join(stats) + b"]}")
        head = dump({"brokerAddr": ports.leader_address() or "", "totalDiff": total})
        call.answer(0, body=head[:-1] + b',"consumeStatsList":[' + b",".join(parts) + b"]}")

    call.when_current(look)


def time_span(ports: AdminPorts, request: GroupTopicRequest) -> WhenCurrent[AdminPorts]:
    """303: of each queue, when its oldest, newest and last consumed message were stored."""
    group, topic = legal_group(request.group), existing_topic(ports.state.topics, request.topic)

    def look(call: Call) -> None:
        spans = []
        for queue_id in range(topic.read_queues):
            low, high = ports.queues.bounds(topic.name, queue_id)
            at = ports.state.offsets.get(group, topic.name, queue_id)
            oldest = stored_ms(ports, topic.name, queue_id, low)
            newest = stored_ms(ports, topic.name, queue_id, high - 1)
            consumed = stored_ms(ports, topic.name, queue_id, at - 1) if at else oldest
            delay = waiting_ms(ports, topic.name, queue_id, at)
            queue = MessageQueue(topic.name, ports.config.broker_name, queue_id)
            spans.append(
                {
                    "consumeTimeStamp": consumed,
                    "delayTime": delay,
                    "maxTimeStamp": newest,
                    "messageQueue": queue.to_json(),
                    "minTimeStamp": oldest,
                }
            )
        call.answer(0, body=dump({"consumeTimeSpanSet": spans}))

    return _with_offsets(group, look)


def all_offsets(ports: AdminPorts, call: Call, request: None) -> None:
    """43: the whole table, in the shape of consumerOffset.json."""
    parts = []
    for group, topics in ports.state.offsets.groups():
        for topic, queues in topics.items():
            pairs = b",".join(b"%d:%d" % pair for pair in sorted(queues.items()))
            parts.append(dump(f"{topic}@{group}") + b":{" + pairs + b"}")
    call.answer(0, body=b'{"offsetTable":{' + b",".join(parts) + b"}}")


def correction_offset(ports: AdminPorts, call: Call, request: CorrectionOffsetRequest) -> None:
    """308: the smallest offset of any group in each queue, against one group's own."""
    topic = existing_topic(ports.state.topics, request.topic).name
    filtered = set((request.filter_groups or "").split(","))
    found: dict[int, int] = {}
    for group, topics in ports.state.offsets.groups():
        for queue_id, offset in topics.get(topic, {}).items() if group not in filtered else ():
            if offset >= ports.queues.bounds(topic, queue_id)[0]:
                found[queue_id] = min(offset, found.get(queue_id, LONG_MAX))
    compared = ports.state.offsets.of_group(request.compare_group or "").get(topic, {})
    for queue_id, offset in compared.items():
        found[queue_id] = LONG_MAX if found.get(queue_id, LONG_MAX) > offset else offset
    pairs = b",".join(b"%d:%d" % pair for pair in sorted(found.items()))
    call.answer(0, body=b'{"correctionOffsets":{' + pairs + b"}}")


def broker_offset(ports: AdminPorts, call: Call, request: None) -> None:
    """13: where the log ends, in bytes, as far as it was dispatched."""
    call.when_current(lambda: call.answer(0, encode(OffsetResponse(ports.state.position))))


def _with_offsets(group: str, look: Callable[[Call], None]) -> WhenCurrent[AdminPorts]:
    """Answer with `look` when all commits of the group so far can be read."""
    answer: Step[AdminPorts] = Answer(look)
    return WhenCurrent(lambda: WhenCommitted(group, lambda: answer))


def _consumed(ports: AdminPorts, group: str, names: Iterable[str]) -> list[TopicConfig]:
    """Existing topics of a group: those named, else those it has offsets of.

    One that online members do not subscribe to (any more) is left out.
    """
    online = ports.registry.consumer_group(group)
    wanted = list(names) or sorted(ports.state.offsets.of_group(group))
    found = []
    for name in wanted:
        config = ports.state.topics.get(name)
        unsubscribed = online and online.subscriptions and name not in online.subscriptions
        if config is not None and not unsubscribed:
            found.append(config)
    return found


def _rows(ports: AdminPorts, group: str, topic: TopicConfig) -> Rows:
    rows = []
    for queue_id in range(topic.read_queues):
        low, high = ports.queues.bounds(topic.name, queue_id)
        offset = ports.state.offsets.get(group, topic.name, queue_id) or 0
        row = {
            "brokerOffset": high,
            "consumerOffset": offset,
            "lastTimestamp": max(stored_ms(ports, topic.name, queue_id, offset - 1), 0),
            "minOffset": low,  # ours: messages below it are gone and wait for nobody
            "pullOffset": offset,
        }
        rows.append((MessageQueue(topic.name, ports.config.broker_name, queue_id), row))
    return rows


def _lag(row: Mapping[str, int]) -> int:
    return max(row["brokerOffset"] - max(row["consumerOffset"], row["minOffset"]), 0)


def _stats_body(ports: AdminPorts, group: str, topics: Iterable[TopicConfig]) -> bytes:
    """One ConsumeStats."""
    rows: list[tuple[MessageQueue, Any]] = []
    tps = 0.0
    for topic in topics:
        rows += _rows(ports, group, topic)
        tps += ports.statistics.tps(GROUP_GET_NUMS, f"{topic.name}@{group}", ports.now())
    return b'{"consumeTps":' + dump(tps) + b',"offsetTable":' + dump_queue_map(rows) + b"}"


def _named_topics(request: ConsumeStatsRequest) -> list[str]:
    names = [request.topic] if request.topic else (request.topic_list or "").split(";")
    return [name for name in names if name]


def _needs_of_stats(request: ConsumeStatsRequest) -> Needs:
    """Without topics the group's right is enough: the answer holds only topics of its offsets."""
    topics = (to_consume(topic) for topic in _named_topics(request))
    return join([in_group(request.consumer_group), *topics])


def _needs_of_span(request: GroupTopicRequest) -> Needs:
    return to_consume(request.topic, request.group)


def _needs_of_correction(request: CorrectionOffsetRequest) -> Needs:
    return to_consume(request.topic, request.compare_group or None)


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.GET_CONSUME_STATS: Handler(
        Who.LEADER, fields(ConsumeStatsRequest), _needs_of_stats, decided(consume_stats)
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: Handler(
        Who.LEADER, fields(BrokerConsumeStatsRequest), ADMIN, broker_consume_stats
    ),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Handler(
        Who.LEADER, fields(GroupTopicRequest), _needs_of_span, decided(time_span)
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: Handler(Who.LEADER, nothing, ADMIN, all_offsets),
    RequestCode.QUERY_CORRECTION_OFFSET: Handler(
        Who.LEADER, fields(CorrectionOffsetRequest), _needs_of_correction, correction_offset
    ),
    RequestCode.QUERY_BROKER_OFFSET: Handler(Who.LEADER, nothing, ADMIN, broker_offset),
}
