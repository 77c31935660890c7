"""Queues assigned by the broker: 400, 401, 402, for clients that do not rebalance themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.kernel.net.decisions import Decision, decided
from cluster.broker.kernel.net.request_bodies import json_object, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who, nothing
from cluster.core.access.needs import ADMIN, Needs, to_consume
from cluster.core.assignment import STRATEGIES, assign
from cluster.core.internal_topics import RequestModeChanged
from cluster.core.request_modes import ROWS_MAX, RequestMode
from cluster.core.topics import RETRY_PREFIX, topic_name_error
from cluster.errors import InvalidRequest, QueueFull, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import MessageQueue, dump

BROADCASTING = "BROADCASTING"


class AssignmentQuestion(NamedTuple):
    """400. `is_broadcast`: every member has all queues."""

    topic: str
    group: str
    client: str
    strategy: str
    is_broadcast: bool


def query_assignment(ports: ConsumePorts, call: Call, request: AssignmentQuestion) -> None:
    """400: this member's queues, and whether it pulls or pops them.

    An answer without a list means that nothing is known yet: the client keeps what it has.
    """
    topic, group, client = request.topic, request.group, request.client
    strategy = STRATEGIES.get(request.strategy)
    mode = ports.state.modes.get(topic, group)

    def answer(queues: list[MessageQueue]) -> None:
        members = ports.registry.consumer_ids(group)
        if request.is_broadcast:
            found = queues
        elif strategy is None or not queues or not members:
            call.answer(0, body=dump({}))
            return
        else:
            found = assign(strategy, client, members, queues, mode)
        rows = [{"messageQueue": queue.to_json(), "mode": mode.mode} for queue in found]
        call.answer(0, body=dump({"messageQueueAssignments": rows}))

    def look() -> None:
        ports.topic_routes.look(topic, lambda queues: call.guarded(lambda: answer(queues)))

    wait = ports.leadership.settled_in()
    if wait > 0:
        call.later(wait, lambda: call.when_current(look))
    else:
        call.when_current(look)


def set_request_mode(ports: ConsumePorts, row: RequestMode) -> Decision:
    """401: PULL or POP for one group and topic."""
    wrong = topic_name_error(row.topic)
    if wrong is not None:
        raise InvalidRequest(wrong)
    if row.topic.startswith(RETRY_PREFIX):
        raise Unauthorized("retry topic is not allowed to set mode")
    if len(ports.state.modes) >= ROWS_MAX:
        raise QueueFull(f"{ROWS_MAX} request modes are set; delete groups that are not used")
    return Decision((RequestModeChanged(row),))


def all_request_modes(ports: ConsumePorts, call: Call, request: None) -> None:
    """402: everything that was set."""
    call.answer(0, body=dump(ports.state.modes.to_json()))


def _read_question(frame: Frame) -> AssignmentQuestion:
    value = json_object(frame, "a question for an assignment")
    return AssignmentQuestion(
        _text(value, "topic"),
        legal_group(_text(value, "consumerGroup")),
        _text(value, "clientId"),
        str(value.get("strategyName")),
        value.get("messageModel") == BROADCASTING,
    )


def _read_mode(frame: Frame) -> RequestMode:
    value = json_object(frame, "a request mode")
    topic, group = _text(value, "topic"), legal_group(_text(value, "consumerGroup"))
    try:
        return RequestMode.from_json(
            {**value, "topic": topic, "consumerGroup": group, "mode": value.get("mode") or "PULL"}
        )
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"a request mode cannot be read: {error}") from None


def _needs(request: AssignmentQuestion) -> Needs:
    return to_consume(request.topic, request.group)


def _text(value: dict[str, object], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidRequest(f"the body lacks its {name}; send it")
    return found


ROUTES: dict[int, Handler[ConsumePorts, Any]] = {
    RequestCode.QUERY_ASSIGNMENT: Handler(Who.LEADER, _read_question, _needs, query_assignment),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Handler(
        Who.LEADER, _read_mode, ADMIN, decided(set_request_mode)
    ),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: Handler(
        Who.ANYWHERE, nothing, ADMIN, all_request_modes
    ),
}
