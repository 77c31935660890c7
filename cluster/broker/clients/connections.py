"""Connected clients: 38, 203, 204, 328; groups and topics that consume each other: 300, 343, 345.

Source: docs/spec/remoting.md 2.3 (38) and 2.8.

All of it is the leader's picture: followers pass their clients' heartbeats on to it.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.clients.ports import ClientPorts
from cluster.broker.kernel.net.request_bodies import existing_topic, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields, nothing
from cluster.core.access.needs import ADMIN, Needs, in_group, to_consume
from cluster.core.groups import Member
from cluster.errors import ConsumerOffline, InvalidRequest, ServerError
from cluster.protocol.admin_headers import (
    ConsumerGroupRequest,
    GroupTopicRequest,
    ProducerGroupRequest,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import ConsumerListRequest, TopicRequest, decode
from cluster.protocol.heartbeat import encode_consumer_list
from cluster.protocol.json_body import dump
from cluster.protocol.topics import encode_topic_list
from commitlog.address import host_of


def consumer_list(ports: ClientPorts, call: Call, request: ConsumerListRequest) -> None:
    """38: the members of a group, the same from every replica. A new leader waits for them."""

    def look() -> None:
        members = ports.registry.consumer_ids(request.consumer_group)
        if not members:
            raise ServerError(f"no consumer for this group, {request.consumer_group}; start one")
        call.answer(0, body=encode_consumer_list(members))

    _when_settled(ports, call, look)


def consumer_connections(ports: ClientPorts, call: Call, request: ConsumerGroupRequest) -> None:
    """203: members, subscriptions, settings of a consumer group; 206 for one without members."""
    name = legal_group(request.group)

    def look() -> None:
        group = ports.registry.consumer_group(name)
        if group is None or not group.members:
            raise ConsumerOffline(
                f"the consumer group {name} is not online; start a consumer of it"
            )
        settings = group.registration
        body = {
            "connectionSet": [_connection(member) for member in group.members.values()],
            "consumeFromWhere": settings.consume_from,
            "consumeType": settings.consume_type,
            "messageModel": settings.message_model,
            "sharedIds": sorted(group.members.keys() & set(ports.registry.watch.shared)),
            "subscriptionTable": {
                topic: subscription.to_json() for topic, subscription in group.subscriptions.items()
            },
        }
        call.answer(0, body=dump(body))

    _when_settled(ports, call, look)


def producer_connections(ports: ClientPorts, call: Call, request: ProducerGroupRequest) -> None:
    """204: members of a producer group; code 1 for a group without members, as in RocketMQ."""
    name = request.producer_group

    def look() -> None:
        members = dict(ports.registry.producer_groups()).get(name)
        if not members:
            raise ServerError(
                f"the producer group {name[:255]} is not online; start a producer of it"
            )
        body = {"connectionSet": [_connection(member) for member in members.values()]}
        call.answer(0, body=dump(body))

    _when_settled(ports, call, look)


def all_producers(ports: ClientPorts, call: Call, request: None) -> None:
    """328: every producer of every group."""
    data: dict[str, list[dict[str, Any]]] = {}
    for name, members in ports.registry.producer_groups():
        data[name] = [
            {
                "clientId": member.info.client_id,
                "language": member.info.language,
                "lastUpdateTimestamp": _heard_ms(ports, call, member),
                "remoteIP": host_of(member.info.address),
                "version": member.info.version,
            }
            for member in members.values()
        ]
    call.answer(0, body=dump({"data": data}))


def topic_consumers(ports: ClientPorts, call: Call, request: TopicRequest) -> None:
    """300: groups that subscribe to a topic or have offsets of it."""
    topic = existing_topic(ports.state.topics, request.topic).name
    online = {n for n, group in ports.registry.consumer_groups() if topic in group.subscriptions}
    stored = {name for name, topics in ports.state.offsets.groups() if topic in topics}
    call.answer(0, body=dump({"groupList": sorted(online | stored)}))


def consumed_topics(ports: ClientPorts, call: Call, request: ConsumerGroupRequest) -> None:
    """343: topics that a group has offsets of."""
    name = legal_group(request.group)

    def look() -> None:
        call.answer(0, body=encode_topic_list(sorted(ports.state.offsets.of_group(name))))

    call.when_current(look)


def subscription(ports: ClientPorts, call: Call, request: GroupTopicRequest) -> None:
    """345: a group's present subscription to a topic; without a member, no subscriptionData."""
    group = ports.registry.consumer_group(legal_group(request.group))
    found = group.subscriptions.get(request.topic) if group is not None else None
    body: dict[str, Any] = {"group": request.group, "topic": request.topic}
    if found is not None:
        body["subscriptionData"] = found.to_json()
    call.answer(0, body=dump(body))


def _when_settled(ports: ClientPorts, call: Call, look: Any) -> None:
    """Run `look` when this leader has heard which clients the other replicas have."""
    wait = ports.leadership.settled_in()
    if wait > 0:
        call.later(wait, lambda: call.when_current(look))
    else:
        call.when_current(look)


def _needs_of_list(request: ConsumerListRequest) -> Needs:
    return in_group(request.consumer_group)


def _read_group(frame: Frame) -> ConsumerGroupRequest:
    """343 names its group `group`, 203 `consumerGroup`; either will do."""
    ext = dict(frame.ext)
    ext.setdefault("consumerGroup", ext.get("group", ""))
    if not ext["consumerGroup"]:
        raise InvalidRequest("the request lacks its field group; send it")
    return decode(ConsumerGroupRequest, ext)


def _needs_of_group(request: ConsumerGroupRequest) -> Needs:
    return in_group(request.group)


def _needs_of_topic(request: TopicRequest) -> Needs:
    return to_consume(request.topic)


def _needs_of_both(request: GroupTopicRequest) -> Needs:
    return to_consume(request.topic, request.group)


def _connection(member: Member) -> dict[str, Any]:
    info = member.info
    return {
        "clientAddr": info.address,
        "clientId": info.client_id,
        "language": info.language,
        "version": info.version,
    }


def _heard_ms(ports: ClientPorts, call: Call, member: Member) -> int:
    """Wall time of its last heartbeat."""
    age = ports.now() - max(member.channels.values())
    return ports.now_ms() - int(age * 1000)


ROUTES: dict[int, Handler[ClientPorts, Any]] = {
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Handler(
        Who.LEADER, fields(ConsumerListRequest), _needs_of_list, consumer_list
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Handler(
        Who.LEADER, fields(ConsumerGroupRequest), _needs_of_group, consumer_connections
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Handler(
        Who.LEADER, fields(ProducerGroupRequest), ADMIN, producer_connections
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: Handler(Who.LEADER, nothing, ADMIN, all_producers),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Handler(
        Who.LEADER, fields(TopicRequest), _needs_of_topic, topic_consumers
    ),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: Handler(
        Who.LEADER, _read_group, _needs_of_group, consumed_topics
    ),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Handler(
        Who.LEADER, fields(GroupTopicRequest), _needs_of_both, subscription
    ),
}
