"""Sends to a topic that does not exist wait here until the log has created it.

Source: docs/spec/remoting.md 4.2.

One client that names a new topic in every send would fill the log, the disks and every route with
them, so there is a rate and a total (`auto_create_topics_…`), and a burst is spread over time
(paced_creation.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.net.refusals import to_service_error
from cluster.broker.kernel.write.state_writer import WAITING_MAX, StateWriter
from cluster.broker.produce.paced_creation import PacedCreation
from cluster.broker.produce.send_context import SendClient
from cluster.core.apply import AppliedState
from cluster.core.rate import Rate
from cluster.errors import QueueFull, TopicNotFound
from cluster.protocol.send import SendRequest
from cluster.protocol.send_response import refuse_send
from dledger.errors import NotLeader, OutcomeUnknown
from dledger.runtime.owned import Owned

Retry = Callable[[Any, Sequence[SendRequest]], None]


class TopicCreation:
    """`retry` takes a waiting send again once its topic exists."""

    def __init__(
        self,
        state: AppliedState,
        writer: StateWriter,
        owned: Owned,
        live: LiveSettings,
        *,
        rate: Rate,
        retry: Retry,
        give_back: Callable[[SendRequest], None],
    ) -> None:
        """`give_back`: the price of the wait, before a send is taken again or refused."""
        self._state, self._writer = state, writer
        self._live, self._bytes = live, 0
        self._count, self.paced = 0, PacedCreation(writer.create_topic, owned)
        self._rate, self._now = rate, owned.time
        self._retry, self._give_back = retry, give_back

    def create(self, client: SendClient, request: SendRequest) -> None:
        """Begin, or join, the creation of the topic. Raises TopicNotFound or QueueFull."""
        template = request.template
        if not self._live.now.auto_create_topics:
            raise TopicNotFound(
                f"the topic {template.topic} does not exist; create it and send again"
            )
        config = self._state.topics.plan_auto_create(
            template.topic, template.default_topic, template.default_topic_queue_count
        )
        if config is None:
            raise TopicNotFound(
                f"the topic {template.topic} does not exist and {template.default_topic} does not "
                "let it be created; create it and send again"
            )

        size = len(request.body) + len(request.properties)
        if self._bytes + size > self._live.now.leader_wait_bytes_max or self._count >= WAITING_MAX:
            raise QueueFull("too much waits for topics to be created; pause, then send again")
        name = template.topic
        is_creating = self._writer.is_creating(name)
        if not is_creating and not self.paced.is_waiting(name):
            self._admit(name)

        def created(error: Exception | None) -> None:
            self._bytes -= size
            self._count -= 1
            self._give_back(request)
            if isinstance(error, OutcomeUnknown):
                error = NotLeader(None)  # whatever became of the topic: this was not stored
            if error is None:
                self._retry(client, [request])
            elif not request.is_oneway:
                client.write(refuse_send(request, to_service_error(error)))

        begin = self._writer.create_topic if is_creating else self.paced.begin
        begin(config, created)
        self._bytes += size
        self._count += 1

    def _admit(self, topic: str) -> None:
        """Raises TopicNotFound or QueueFull when sends have created too many topics."""
        most = self._live.now.auto_create_topics_max
        if len(self._state.topics) >= most:
            raise TopicNotFound(
                f"the topic {topic} does not exist, and the broker has {most} topics,"
                " as many as auto_create_topics_max lets sends create; have it created by an"
                " administrator (dledger topic create), or delete topics"
            )
        if not self._rate.take(self._now()):
            raise QueueFull(
                "too many topics are created by sends; pause, then send again, or create them"
                " before (dledger topic create)"
            )
