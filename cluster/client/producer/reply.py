"""Sends the reply to a request of another client (325; docs/spec/remoting.md 5)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from cluster.client.config import BODY_SIZE_MAX
from cluster.client.message import ReceivedMessage
from cluster.client.producer.message_properties import encode_extra
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import RetryingRequest
from cluster.errors import InvalidRequest, MessageTooLarge, ServerError
from cluster.protocol.codes import RequestCode
from cluster.protocol.json_body import MessageQueue
from commitlog.records import property_names as names
from commitlog.records.names import DEFAULT_TOPIC
from commitlog.records.properties import encode_properties

_QUEUE_ID = 0  # the reply topic has one queue


def reply_topic(cluster: str) -> str:
    """The topic of a cluster's replies; its route names the brokers that pass replies on."""
    return f"{cluster}_REPLY_TOPIC"


async def send_reply(
    instance: ClientInstance,
    message: ReceivedMessage,
    body: bytes,
    group: str,
    properties: Mapping[str, str] | None,
) -> None:
    """See `Client.reply`.

    A repeat does no harm: the client that asked takes the first reply to a request and no other.
    """
    pairs = _addressed(message)
    topic = reply_topic(pairs.pop(names.CLUSTER))
    if len(body) > BODY_SIZE_MAX:
        raise MessageTooLarge(
            f"the body has {len(body)} bytes and the limit is {BODY_SIZE_MAX}; reply with less"
        )
    block = encode_properties(pairs) + encode_extra(None, None, properties)
    route = await instance.routes.get(topic)
    brokers = [queue.broker_name for queue in route.write_queues(topic)]
    asked_by = message.queue.broker_name
    broker = asked_by if asked_by in brokers or not brokers else brokers[0]
    ext = {
        "a": group,
        "b": topic,
        "c": DEFAULT_TOPIC,
        "d": "4",
        "e": str(_QUEUE_ID),
        "f": "0",
        "g": str(int(time.time() * 1000)),
        "h": "0",
        "i": block.decode(),
        "j": "0",
        "k": "false",
        "m": "false",
        "n": broker,
    }
    queue = MessageQueue(topic, broker, _QUEUE_ID)
    asking = RetryingRequest(instance, queue, time_limit=instance.config.request_timeout)
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    await asking.ask(code, ext, body=bytes(body), final=ServerError)


def _addressed(message: ReceivedMessage) -> dict[str, str]:
    """The properties of a reply, and CLUSTER.

    Raises:
        InvalidRequest: the message asks for no reply.
    """
    found = message.properties
    wanted = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.CLUSTER)
    if missing := [name for name in wanted if not found.get(name)]:
        raise InvalidRequest(
            f"the message {message.message_id} asks for no reply (it has no {missing[0]}); reply "
            "only to what was sent with `request`"
        )
    pairs = {name: found[name] for name in wanted}
    if found.get(names.TTL):
        pairs[names.TTL] = found[names.TTL]
    return {names.MESSAGE_TYPE: "reply", **pairs}
