"""May a consumer subscribe like this? 46, asked before a client starts (remoting.md 2.4)."""

from __future__ import annotations

from cluster.broker.manage.reading import json_object
from cluster.broker.serving.requests import Call, Route, Who
from cluster.core.sql92.lexer import Sql92ParseError
from cluster.core.sql92.parser import parse
from cluster.errors import InvalidRequest, SubscriptionInvalid
from cluster.protocol.codes import RequestCode
from cluster.protocol.heartbeat import Subscription

TAG = "TAG"
SQL92 = "SQL92"


def check_client_config(call: Call) -> None:
    """46: code 0, or 23 with what is wrong in the expression."""
    value = json_object(call, "a client's configuration")
    bean = value.get("subscriptionData")
    if not isinstance(bean, dict):
        raise InvalidRequest("a client's configuration lacks its subscriptionData; send it")
    try:
        subscription = Subscription.from_json(bean)
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest("subscriptionData lacks topic or has a wrong type") from None
    check_expression(subscription.expression_type, subscription.expression)
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


ROUTES: dict[int, Route] = {
    RequestCode.CHECK_CLIENT_CONFIG: Route(Who.ANYWHERE, check_client_config)
}
