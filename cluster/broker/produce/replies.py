"""A reply finds the client that asked (324, 325 → 326; docs/spec/remoting.md 5, request-reply).

    consumer ─325: REPLY_TO_CLIENT=id─► leader ─326─► the client of that id, on whichever node
             ◄─ code 0: it has it ─────        ◄─ 0 ─

The leader knows every client of its group: followers pass heartbeats on, and a question to one of
theirs goes over its link. Nothing is promised beyond the push: with `store_replies` the reply is
logged as well, as a message of the reply topic, and like RocketMQ's broker we answer the push, with
msgId 0, whatever comes of that. The asking client takes a second reply to one request for none.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.kernel.net.decisions import Answer, decided
from cluster.broker.kernel.net.requests import Call, Handler, Who
from cluster.broker.kernel.write.send_target import check_name, check_target
from cluster.broker.produce.decisions import ReplyStored
from cluster.broker.produce.ports import ProducePorts
from cluster.core.access.needs import Needs, as_producer, to_publish
from cluster.core.groups import Channel
from cluster.errors import QueueFull, ServerError, TopicNotFound
from cluster.protocol.codes import VERSION, RequestCode
from cluster.protocol.fields import encode
from cluster.protocol.frames import Frame
from cluster.protocol.reply_headers import PushReplyRequest
from cluster.protocol.send import SendReader, SendRequest
from commitlog.errors import MessageTooLarge
from commitlog.records.properties import decode_properties

#: The replying client's own limit is 3 s, and Java closes the connection when that is over.
PUSH_SECONDS_MAX = 2.5
#: Clients register a second after they start and may ask before; a new leader hears of the others'
#: clients within a second, too.
REGISTRATION_SECONDS_MAX = 1.3
LOOK_AGAIN_SECONDS = 0.1
LOOKED_FOR_MAX = 1_000  # replies that wait so; each holds its body. More are told at once

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"


def reply(ports: ProducePorts, request: SendRequest) -> Answer | ReplyStored:
    """324 and 325. Code 0: the asking client has it; 1: it cannot be reached, and why."""
    template = request.template
    check_name(template)
    config = ports.state.topics.get(template.topic)
    if config is None:
        raise TopicNotFound(f"the topic {template.topic} does not exist; reply to the reply topic")
    check_target(template, config)
    if len(request.body) > ports.config.body_size_max:
        raise MessageTooLarge("body", len(request.body), ports.config.body_size_max)
    asked_by = decode_properties(request.properties).get(REPLY_TO_CLIENT)
    if asked_by is None:
        raise ServerError(f"reply message properties[{REPLY_TO_CLIENT}] is null; send it")
    pushed = Answer(lambda call: _find(ports, call, request, asked_by, 0.0))
    return ReplyStored(request, pushed) if ports.live.now.store_replies else pushed


def _find(
    ports: ProducePorts, call: Call, request: SendRequest, client_id: str, waited: float
) -> None:
    """The client's connection, or that of a client that has not told yet that it is there."""
    channel = ports.registry.producer_channel(client_id)
    if channel is not None:
        _push(ports, call, request, client_id, channel, PUSH_SECONDS_MAX - waited)
        return
    if waited >= REGISTRATION_SECONDS_MAX or ports.calls.looked_for >= LOOKED_FOR_MAX:
        raise ServerError(
            f"push reply message fail, channel of <{client_id[:255]}> not found; leave it, "
            "the client that asked is gone"
        )
    ports.calls.looked_for += 1

    def again() -> None:
        ports.calls.looked_for -= 1
        _find(ports, call, request, client_id, waited + LOOK_AGAIN_SECONDS)

    call.later(LOOK_AGAIN_SECONDS, again)


def _push(
    ports: ProducePorts,
    call: Call,
    request: SendRequest,
    client_id: str,
    channel: Channel,
    seconds_left: float,
) -> None:
    failed = f"push reply message to {client_id[:255]} fail"
    if channel.is_paused:
        raise QueueFull(f"{failed}, it does not read what it is sent; try again later")

    def heard(answer: Frame | None) -> None:
        if answer is None or answer.code:
            call.refuse(ServerError(f"{failed}; look whether that client lives"))
        else:
            call.answer(0, _answer(ports, call, request))

    ports.calls.ask(channel, _question(ports, call, request), seconds_left, heard)


def _question(ports: ProducePorts, call: Call, request: SendRequest) -> Frame:
    """326 with the reply as it came, the time of the push added."""
    template, now_ms = request.template, ports.now_ms()
    properties = request.properties.decode("utf-8", "replace")
    if properties and not properties.endswith("\x02"):
        properties += "\x02"
    header = PushReplyRequest(
        producer_group=template.producer_group,
        topic=template.topic,
        default_topic=template.default_topic,
        default_topic_queue_nums=template.default_topic_queue_count,
        queue_id=max(template.queue_id, 0),
        sys_flag=template.sys_flag,
        born_timestamp=request.born_timestamp_ms,
        flag=template.flag,
        born_host=call.client.address,
        store_host=ports.advertised,
        store_timestamp=now_ms,
        properties=f"{properties}{PUSH_REPLY_TIME}\x01{now_ms}\x02",
        reconsume_times=template.reconsume_times,
        unit_mode=template.unit_mode,
    )
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    return Frame(code, 0, encode(header), request.body, language="JAVA", version=VERSION)


def _answer(ports: ProducePorts, call: Call, request: SendRequest) -> dict[str, str]:
    """Java reads the three ids of every answer to a send; a reply has none."""
    config = ports.config
    return {
        "msgId": "0",
        "queueId": str(max(request.template.queue_id, 0)),
        "queueOffset": "0",
        "MSG_REGION": config.region,
        "TRACE_ON": "true" if config.trace_on else "false",
    }


def _read(frame: Frame) -> SendRequest:
    return SendReader().read(frame)


def _needs(request: SendRequest) -> Needs:
    """The right to write to the reply topic, since the asking client is reached by its id alone."""
    return to_publish(request.template.topic) | as_producer(request.template.producer_group)


ROUTES: dict[int, Handler[ProducePorts, Any]] = {
    RequestCode.SEND_REPLY_MESSAGE: Handler(Who.LEADER, _read, _needs, decided(reply)),
    RequestCode.SEND_REPLY_MESSAGE_V2: Handler(Who.LEADER, _read, _needs, decided(reply)),
}
