"""Questions of administrators that a connected client answers: 307, 309 and 223 with 221.

Source: docs/spec/remoting.md 2.6.

    admin ─307─► leader ─307─► client (maybe over a follower's link) ─► its answer, passed on

A client that does not answer within its time gives code 207.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.broker.clients.ports import ClientPorts
from cluster.broker.kernel.net.request_bodies import existing_topic, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN, Needs, in_group, to_consume
from cluster.core.groups import Member
from cluster.errors import ConsumerOffline, InvalidRequest, NotFound, ServerError
from cluster.protocol.admin_headers import (
    ConsumeDirectlyRequest,
    ConsumerStatusRequest,
    RunningInfoRequest,
)
from cluster.protocol.codes import VERSION, RequestCode, ResponseCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import encode
from cluster.protocol.json_body import dump
from cluster.protocol.offset_id import decode_offset_id
from commitlog.records.message_fast import scan_record

# RocketMQ's; administrators wait longer (docs/spec/remoting.md 3, code 207)
ANSWER_SECONDS_MAX = 10.0


def running_info(ports: ClientPorts, call: Call, request: RunningInfoRequest) -> None:
    """307: a consumer's report about itself."""

    def ask() -> None:
        member = _member(ports, call, request.consumer_group, request.client_id)
        _ask(ports, call, member, encode(request), b"")

    call.when_current(ask)


def consume_directly(ports: ClientPorts, call: Call, request: ConsumeDirectlyRequest) -> None:
    """309: one message to one consumer, as if it had been pulled.

    The message's own topic is asked for when it was found: no client is sent what none may read.
    """
    if not request.msg_id or not request.client_id:
        raise InvalidRequest("the request needs its fields msgId and clientId; send them")
    client_id, position = request.client_id, decode_offset_id(request.msg_id)[2]

    def ask() -> None:
        member = _member(ports, call, request.consumer_group, client_id)
        try:
            record = ports.reader.record(position)
        except NotFound as error:
            raise ServerError(str(error)) from None
        call.require(to_consume(scan_record(record).topic.decode("utf-8", "replace")))
        ext = {**encode(request), "brokerName": ports.config.broker_name}
        _ask(ports, call, member, ext, bytes(record))

    call.when_current(ask)


def consumer_status(ports: ClientPorts, call: Call, request: ConsumerStatusRequest) -> None:
    """223: offsets as each member holds them (221 to each); `clientAddr`: of one member only."""
    name = legal_group(request.group)
    existing_topic(ports.state.topics, request.topic)

    def ask() -> None:
        group = ports.registry.consumer_group(name)
        wanted = request.client_addr or ""
        members = [
            member
            for member in (group.members.values() if group is not None else ())
            if wanted in ("", member.info.client_id)
        ]
        if not members:
            raise ConsumerOffline(
                f"the consumer group {name} has no such member online; dledger group describe "
                "lists its members"
            )
        _gather(ports, call, request, members)

    call.when_current(ask)


def _gather(
    ports: ClientPorts, call: Call, request: ConsumerStatusRequest, members: list[Member]
) -> None:
    """Ask every member; answer when all have, or their time is over."""
    tables: dict[str, bytes] = {}
    open_count = len(members)

    def heard(member: Member) -> Callable[[Frame | None], None]:
        def one(frame: Frame | None) -> None:
            nonlocal open_count
            open_count -= 1
            if frame is not None and frame.code == 0:
                tables[member.info.client_id] = _queue_table(frame.body)
            if not open_count:
                parts = [dump(client) + b":" + table for client, table in sorted(tables.items())]
                body = b'{"consumerTable":{' + b",".join(parts) + b'},"messageQueueTable":{}}'
                call.answer(0, body=body)

        return one

    ext = encode(ConsumerStatusRequest(request.topic, request.group))
    for member in members:
        question = _question(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext, b"")
        ports.calls.ask(member.best_channel(), question, ANSWER_SECONDS_MAX, heard(member))


def _queue_table(body: bytes) -> bytes:
    """The map of one client's answer, as it wrote it: objects are its keys."""
    begin = body.find(b'"messageQueueTable":')
    if begin < 0 or not body.rstrip().endswith(b"}"):
        return b"{}"
    table = body[begin + len(b'"messageQueueTable":') : body.rindex(b"}")]
    depth = 0
    for at, byte in enumerate(table):
        depth += (byte == 0x7B) - (byte == 0x7D)
        if not depth:
            return table[: at + 1]
    return b"{}"


def _member(ports: ClientPorts, call: Call, group: str, client_id: str) -> Member:
    found = ports.registry.consumer_group(legal_group(group))
    member = found.members.get(client_id) if found is not None else None
    if member is None:
        raise ServerError(f"The Consumer <{group}> <{client_id[:255]}> not online; start it")
    return member


def _ask(
    ports: ClientPorts, call: Call, member: Member, ext: Mapping[str, str], body: bytes
) -> None:
    def heard(frame: Frame | None) -> None:
        if frame is None:
            call.answer(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                remark=f"the client {member.info.client_id} did not answer within "
                f"{ANSWER_SECONDS_MAX:.0f} s",
            )
        else:
            call.answer(frame.code, frame.ext, frame.body, frame.remark)

    question = _question(call.frame.code, ext, body)
    ports.calls.ask(member.best_channel(), question, ANSWER_SECONDS_MAX, heard)


def _question(code: int, ext: Mapping[str, str], body: bytes) -> Frame:
    return Frame(code, 0, ext, body, language="JAVA", version=VERSION)


def _needs_of_info(request: RunningInfoRequest) -> Needs:
    return in_group(request.consumer_group)


def _needs_of_status(request: ConsumerStatusRequest) -> Needs:
    return to_consume(request.topic, request.group)


ROUTES: dict[int, Handler[ClientPorts, Any]] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: Handler(
        Who.LEADER, fields(RunningInfoRequest), _needs_of_info, running_info
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Handler(
        Who.LEADER, fields(ConsumeDirectlyRequest), ADMIN, consume_directly
    ),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Handler(
        Who.LEADER, fields(ConsumerStatusRequest), _needs_of_status, consumer_status
    ),
}
