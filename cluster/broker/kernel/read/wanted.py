"""The messages of a pull: its topic, its group's permission, and its subscription's filter.

    TAG     hashes of tags against queue entries; the consumer compares the texts again
    SQL92   an expression over the properties of each record (cluster.core.sql92)

A bad permission is code 16, an unknown subscription 24, an old one 25, an unreadable one 23.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.read.topic_checks import check_queue_id, find_readable
from cluster.core.apply import AppliedState
from cluster.core.groups import BROADCASTING, ClientRegistry
from cluster.core.sql92.expressions import Expression
from cluster.core.sql92.lexer import Sql92ParseError
from cluster.core.sql92.parser import parse
from cluster.core.topics import TopicConfig
from cluster.errors import (
    GroupNotFound,
    SubscriptionInvalid,
    SubscriptionMissing,
    SubscriptionOutdated,
    Unauthorized,
)
from cluster.protocol.headers import PULL_FLAG_SUBSCRIPTION, PullRequest
from commitlog.queues.tag_filter import subscription_hashes
from commitlog.records.message import decode_message

TAG, SQL92 = "TAG", "SQL92"
EXPRESSIONS_MAX = 1_000  # parsed ones that are kept; each is a few KiB
READ_FORBIDDEN = 1


class Wanted(NamedTuple):
    """`hashes` of tags (None: all), or an `expression`, which was made of `text`."""

    hashes: frozenset[int] | None
    expression: Expression | None = None
    text: str = ""

    @property
    def everything(self) -> bool:
        """True if no message is filtered out."""
        return self.hashes is None and self.expression is None

    def takes(self, record: bytes | memoryview) -> bool:
        """Does the expression match the record's properties?"""
        assert self.expression is not None
        message = decode_message(record, verify_body=False)
        return self.expression.matches(message.properties)


EVERYTHING = Wanted(None)


class Subscriptions:
    """The subscriptions of one broker. All checks are in memory."""

    def __init__(self, state: AppliedState, registry: ClientRegistry, live: LiveSettings) -> None:
        self._state, self._registry, self._live = state, registry, live
        self._parsed: dict[str, Expression] = {}

    def wanted(self, request: PullRequest) -> Wanted:
        """The filter of the pull's subscription. Raises the error for the client."""
        self.check_group(request)
        if request.sys_flag & PULL_FLAG_SUBSCRIPTION and request.subscription is not None:
            return self.filter(request.expression_type or TAG, request.subscription)
        group = self._registry.consumer_group(request.consumer_group)
        if group is None:
            raise SubscriptionMissing(
                f"no heartbeat of the consumer group {request.consumer_group} was seen here; send "
                "one, then pull again"
            )
        found = group.subscriptions.get(request.topic)
        if found is None:
            raise SubscriptionMissing(
                f"the group {request.consumer_group} has not subscribed to {request.topic}"
            )
        if found.version < request.sub_version:
            raise SubscriptionOutdated("a newer subscription is on its way; pull again")
        if found.expression_type == TAG:
            return Wanted(found.codes or None)
        return self.filter(found.expression_type, found.expression)

    def topic(self, request: PullRequest) -> TopicConfig:
        """The topic pulled from. Raises the error that the client is answered with."""
        config = find_readable(self._state.topics, request.topic)
        check_queue_id(config, request.queue_id)
        return config

    def check_group(self, request: PullRequest) -> None:
        """Raises GroupNotFound or Unauthorized."""
        name, groups = request.consumer_group, self._state.groups
        bean = groups.get(name)
        if bean is None:
            if not self._live.now.auto_create_groups:
                raise GroupNotFound(f"the consumer group {name} does not exist; create it first")
            return
        if not bean.get("consumeEnable", True):
            raise Unauthorized(
                f"the consumer group {name} may not consume (consumeEnable=false); allow it with "
                f"dledger group alter {name} --consume, or mqadmin updateSubGroup"
            )
        if groups.forbidden(name, request.topic) & READ_FORBIDDEN:
            raise Unauthorized(
                f"the consumer group {name} may not read {request.topic}; have it allowed, or use "
                "another group"
            )
        if not bean.get("consumeBroadcastEnable", True):
            online = self._registry.consumer_group(name)
            if online is not None and online.registration.message_model == BROADCASTING:
                raise Unauthorized(
                    f"the consumer group {name} may not consume by broadcast "
                    f"(consumeBroadcastEnable=false); allow it with dledger group alter {name} "
                    "--broadcast, or mqadmin updateSubGroup"
                )

    def filter(self, kind: str, text: str) -> Wanted:
        """The filter of one expression. Raises SubscriptionInvalid."""
        if kind == TAG:
            return Wanted(subscription_hashes(text))
        if kind != SQL92:
            raise SubscriptionInvalid(
                f"the filter language {kind[:40]} is not served; use SQL92 or TAG"
            )
        expression = self._parsed.get(text)
        if expression is None:
            try:
                expression = parse(text)
            except Sql92ParseError as error:
                raise SubscriptionInvalid(f"the expression cannot be read: {error}") from None
            if len(self._parsed) >= EXPRESSIONS_MAX:
                del self._parsed[next(iter(self._parsed))]
            self._parsed[text] = expression
        return Wanted(None, expression, text)
