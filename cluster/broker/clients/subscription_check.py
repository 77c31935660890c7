"""Checks a consumer's subscription: 46, asked before a client starts.

Source: docs/spec/remoting.md 2.4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cluster.broker.clients.ports import ClientPorts
from cluster.broker.kernel.net.request_bodies import json_object
from cluster.broker.kernel.net.requests import Call, Handler, Who
from cluster.core.access.needs import Needs, to_consume
from cluster.core.sql92.lexer import Sql92ParseError
from cluster.core.sql92.parser import parse
from cluster.errors import InvalidRequest, SubscriptionInvalid
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.heartbeat import Subscription

TAG = "TAG"
SQL92 = "SQL92"


class ClientConfig(NamedTuple):
    """The subscription that a client is going to use; the group is "" when it named none."""

    group: str
    subscription: Subscription


def _read(frame: Frame) -> ClientConfig:
    value = json_object(frame, "a client's configuration")
    bean = value.get("subscriptionData")
    if not isinstance(bean, dict):
        raise InvalidRequest("a client's configuration lacks its subscriptionData; send it")
    try:
        return ClientConfig(str(value.get("group") or ""), Subscription.from_json(bean))
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest("subscriptionData lacks topic or has a wrong type") from None


def _needs(request: ClientConfig) -> Needs:
    return to_consume(request.subscription.topic, request.group or None)


def check_client_config(_: ClientPorts, call: Call, request: ClientConfig) -> None:
    """46: code 0, or 23 with the mistake in the expression."""
    check_expression(request.subscription.expression_type, request.subscription.expression)
    call.answer()


def check_expression(kind: str, text: str) -> None:
    """Raises SubscriptionInvalid for a language or an expression that is not understood."""
    if kind == TAG:
        return
    if kind != SQL92:
        raise SubscriptionInvalid(
            f"the filter language {kind[:40]} is not served; use SQL92 or TAG"
        )
    try:
        parse(text)
    except Sql92ParseError as error:
        raise SubscriptionInvalid(f"the expression cannot be read: {error}") from None


ROUTES: dict[int, Handler[ClientPorts, Any]] = {
    RequestCode.CHECK_CLIENT_CONFIG: Handler(Who.ANYWHERE, _read, _needs, check_client_config)
}
