"""Request code → what its sender must be allowed (RocketMQ's plain ACL, PlainAccessResource).

    sends              PUB of the topic
    pulls, queries     SUB of topic and group
    heartbeats         SUB of each group and of each topic that it subscribes to
    administration     an admin account

Codes that name neither topic nor group need an account only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster.core.access.accounts import Permission
from cluster.core.topics import DLQ_PREFIX, RETRY_PREFIX
from cluster.protocol.codes import RequestCode
from cluster.protocol.heartbeat import decode_heartbeat

RAW_RANGE_CODES = range(31000, 32000)  # raw bytes of the log, all topics (design.md)


class Needs(NamedTuple):
    """Topics and groups with the permission wanted; `admin`: only for admin accounts."""

    topics: tuple[tuple[str, Permission], ...] = ()
    groups: tuple[tuple[str, Permission], ...] = ()
    admin: bool = False


NOTHING = Needs()
ADMIN = Needs(admin=True)
_ADMIN_CODES = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
    }
)


def needs_of(code: int, ext: Mapping[str, str], body: bytes) -> Needs:
    """Raises RemoteProtocolError for a heartbeat that cannot be read."""
    if code in _ADMIN_CODES or code in RAW_RANGE_CODES:
        return ADMIN
    rule = _RULES.get(code)
    return NOTHING if rule is None else rule(ext, body)


def _topic(name: str, wanted: Permission) -> tuple[tuple[str, Permission], ...]:
    """A retry or dead-letter topic is its group's, so it is asked for as a group."""
    return ((name, wanted),) if name else ()


def _resource(topic: str, wanted: Permission) -> Needs:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return Needs(groups=((topic[len(prefix) :], Permission.SUB),))
    return Needs(topics=_topic(topic, wanted))


def _send(ext: Mapping[str, str], body: bytes) -> Needs:
    return _resource(ext.get("topic") or ext.get("b", ""), Permission.PUB)


def _subscribe(ext: Mapping[str, str], body: bytes) -> Needs:
    needs = _resource(ext.get("topic", ""), Permission.SUB)
    group = ext.get("consumerGroup", "")
    return needs._replace(groups=(*needs.groups, *_topic(group, Permission.SUB)))


def _pop(ext: Mapping[str, str], body: bytes) -> Needs:
    """A retry topic of a pop is its group's, whose name the request says."""
    topic, group = ext.get("topic", ""), ext.get("consumerGroup", "")
    topics = () if topic.startswith(RETRY_PREFIX) else _topic(topic, Permission.SUB)
    return Needs(topics, _topic(group, Permission.SUB))


def _read_topic(ext: Mapping[str, str], body: bytes) -> Needs:
    return _resource(ext.get("topic", ""), Permission.SUB)


def _group(ext: Mapping[str, str], body: bytes) -> Needs:
    group = ext.get("consumerGroup") or ext.get("group", "")
    return Needs(groups=_topic(group, Permission.SUB))


def _heartbeat(ext: Mapping[str, str], body: bytes) -> Needs:
    groups: list[tuple[str, Permission]] = []
    topics: list[tuple[str, Permission]] = []
    for consumer in decode_heartbeat(body).consumers:
        groups.append((consumer.group, Permission.SUB))
        topics += (
            (subscription.topic, Permission.SUB)
            for subscription in consumer.subscriptions
            if not subscription.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        )
    return Needs(tuple(topics), tuple(groups))


_Rule = Callable[[Mapping[str, str], bytes], Needs]
_RULES: dict[int, _Rule] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send,
    RequestCode.SEND_BATCH_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE_V2: _send,
    RequestCode.RECALL_MESSAGE: _send,
    RequestCode.PULL_MESSAGE: _subscribe,
    RequestCode.LITE_PULL_MESSAGE: _subscribe,
    RequestCode.QUERY_CONSUMER_OFFSET: _subscribe,
    RequestCode.UPDATE_CONSUMER_OFFSET: _subscribe,
    RequestCode.POP_MESSAGE: _pop,
    RequestCode.ACK_MESSAGE: _pop,
    RequestCode.PEEK_MESSAGE: _pop,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _pop,
    RequestCode.NOTIFICATION: _pop,
    RequestCode.QUERY_MESSAGE: _read_topic,
    RequestCode.CONSUMER_SEND_MSG_BACK: _group,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _group,
    RequestCode.UNREGISTER_CLIENT: _group,
    RequestCode.HEART_BEAT: _heartbeat,
}
