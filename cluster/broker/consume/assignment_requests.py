"""Queues assigned by the broker: 400, 401, 402, for clients that do not rebalance themselves."""

from __future__ import annotations

from cluster.broker.manage.reading import json_object, legal_group
from cluster.broker.serving.requests import Call, Route, Who
from cluster.core.assignment import STRATEGIES, assign
from cluster.core.internal_topics import RequestModeChanged
from cluster.core.request_modes import ROWS_MAX, RequestMode
from cluster.core.topics import RETRY_PREFIX, topic_name_error
from cluster.errors import InvalidRequest, QueueFull, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.json_body import MessageQueue, dump

BROADCASTING = "BROADCASTING"


def query_assignment(call: Call) -> None:
    """400: this member's queues, and whether it pulls or pops them.

    An answer without a list means that nothing is known yet: the client keeps what it has.
    """
    value = json_object(call, "a question for an assignment")
    topic, client = _text(value, "topic"), _text(value, "clientId")
    group = legal_group(_text(value, "consumerGroup"))
    strategy = STRATEGIES.get(str(value.get("strategyName")))
    is_broadcast = value.get("messageModel") == BROADCASTING
    services = call.services
    mode = services.state.modes.get(topic, group)

    def answer(queues: list[MessageQueue]) -> None:
        members = services.registry.consumer_ids(group)
        if is_broadcast:
            found = queues
        elif strategy is None or not queues or not members:
            call.answer(0, body=dump({}))
            return
        else:
            found = assign(strategy, client, members, queues, mode)
        rows = [{"messageQueue": queue.to_json(), "mode": mode.mode} for queue in found]
        call.answer(0, body=dump({"messageQueueAssignments": rows}))

    def look() -> None:
        services.topic_routes.look(topic, lambda queues: call.guarded(lambda: answer(queues)))

    wait = services.leadership.settled_in()
    if wait > 0:
        services.call_later(wait, lambda: call.when_current(look))
    else:
        call.when_current(look)


def set_request_mode(call: Call) -> None:
    """401: PULL or POP for one group and topic, answered when it is in the log."""
    value = json_object(call, "a request mode")
    topic, group = _text(value, "topic"), legal_group(_text(value, "consumerGroup"))
    wrong = topic_name_error(topic)
    if wrong is not None:
        raise InvalidRequest(wrong)
    if topic.startswith(RETRY_PREFIX):
        raise Unauthorized("retry topic is not allowed to set mode")
    try:
        row = RequestMode.from_json(
            {**value, "topic": topic, "consumerGroup": group, "mode": value.get("mode") or "PULL"}
        )
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"a request mode cannot be read: {error}") from None
    if len(call.services.state.modes) >= ROWS_MAX:
        raise QueueFull(f"{ROWS_MAX} request modes are set; delete groups that are not used")
    call.services.writer.write(RequestModeChanged(row), call.done)


def all_request_modes(call: Call) -> None:
    """402: everything that was set."""
    call.answer(0, body=dump(call.services.state.modes.to_json()))


def _text(value: dict[str, object], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidRequest(f"the body lacks its {name}; send it")
    return found


ROUTES: dict[int, Route] = {
    RequestCode.QUERY_ASSIGNMENT: Route(Who.LEADER, query_assignment),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Route(Who.LEADER, set_request_mode),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: Route(Who.ANYWHERE, all_request_modes),
}
