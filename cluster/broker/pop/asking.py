"""The common part of requests for messages: their checks, and one that waits."""

from __future__ import annotations

from typing import Final

from cluster.broker.kernel.net.requests import Call
from cluster.broker.kernel.read.topic_checks import find_readable
from cluster.broker.kernel.read.wanted import EVERYTHING, TAG, Wanted
from cluster.broker.pop.popping import Ask
from cluster.broker.pop.ports import PopPorts
from cluster.core.pop.names import retry_topic
from cluster.core.topics import TopicConfig, group_name_error
from cluster.errors import InvalidRequest
from cluster.protocol.headers import PullRequest
from cluster.protocol.pop_headers import ANY_QUEUE

ATTEMPT_LENGTH_MAX: Final = 128  # characters that are kept; clients make some forty


def check_topic(ports: PopPorts, call: Call, topic: str, queue_id: int) -> TopicConfig:
    """Raises TopicNotFound, Unauthorized or InvalidRequest."""
    row = find_readable(ports.state.topics, topic)
    if not ANY_QUEUE <= queue_id < row.read_queues:
        raise InvalidRequest(
            f"queueId {queue_id} is out of range: {topic} has {row.read_queues} queues"
        )
    return row


def check_group(ports: PopPorts, call: Call, group: str, topic: str) -> None:
    """Raises InvalidRequest, GroupNotFound or Unauthorized."""
    wrong = group_name_error(group)
    if wrong is not None:
        raise InvalidRequest(wrong)
    request = PullRequest(group, topic, 0, 0, 1, 0, 0, 0, 0)
    ports.pop.subscriptions.check_group(request)


def wanted_of(ports: PopPorts, call: Call, kind: str | None, text: str | None) -> Wanted:
    """The filter that a request names. Raises SubscriptionInvalid."""
    if not text:
        return EVERYTHING
    return ports.pop.subscriptions.filter(kind or TAG, text)


def attempt_of(text: str | None) -> str:
    """The attempt that an ordered pop names; "" for none."""
    return (text or "")[:ATTEMPT_LENGTH_MAX]


class WaitingAsk:
    """A request that waits for messages: `waiting.Waiter` without `wake` and `expire`.

    `_answered`: it was answered, or goes elsewhere.
    """

    def __init__(self, ports: PopPorts, call: Call, ask: Ask, seconds: float) -> None:
        self._ports, self._call = ports, call
        self._ask, self._seconds = ask, seconds
        retries = [retry_topic(ask.topic, ask.group, v2=v2) for v2 in (False, True)]
        self.topics = (ask.topic, *(retries if not ask.is_ordered else ()))
        self._answered = False
        self._changes = call.router.access.changes

    @property
    def queue_id(self) -> int:
        """The queue that is asked for; -1: any."""
        return self._ask.queue_id

    @property
    def key(self) -> tuple[str, str, int]:
        """Topic, group and queue id, by which waiting requests are counted."""
        return self._ask.topic, self._ask.group, self._ask.queue_id

    @property
    def settled(self) -> bool:
        """True once it was answered or went elsewhere, or its connection has closed."""
        return self._answered or self._call.client.closed

    def checked_at(self, changes: int) -> None:
        """The request was checked after so many changes of accounts (`Access.changes`)."""
        self._changes = changes

    def _judged_again(self) -> bool:
        """Accounts changed since it came: it is served anew, by the rights of now (R29)."""
        call = self._call
        if call.router.access.changes == self._changes:
            return False
        self._answered = True
        call.router.request_again(call.client, call.frame)
        return True

    def route_again(self) -> Call:
        """Leadership ended while the request waited: it is sent to the present leader."""
        self._answered = True
        return self._call
