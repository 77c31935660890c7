"""Changes of the broker's own state as records of internal topics, and who waits for them.

    write(change, done) ─► this turn's batch ─► committed, applied, dispatched ─► done(None)

Auto-creation lives here too: sends to a topic that does not exist wait until it does.
"""

from __future__ import annotations

from cluster.broker.produce.appender import Appender
from cluster.broker.replicated.own_records import Done, OwnRecords, WhenDispatched
from cluster.core.internal_topics import (
    GroupsChanged,
    StateChange,
    TopicsChanged,
    encode_change,
)
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.subscription_groups import new_group
from cluster.core.topics import RETRY_PREFIX, TopicConfig
from cluster.errors import QueueFull
from commitlog.message_fast import encode_record, topic_field

WAITING_MAX = 10_000  # requests that wait for a topic to be created


class StateWriter:
    """Used on a leader that is ready."""

    def __init__(
        self,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        *,
        host: bytes,
        when_dispatched: WhenDispatched,
    ) -> None:
        self._appender, self._offsets, self._host = appender, offsets, host
        self._when_dispatched = when_dispatched
        self._creating: dict[str, list[Done]] = {}
        self._groups_creating: dict[str, list[Done]] = {}
        self.waiting = 0

    def write(self, change: StateChange, done: Done) -> None:
        """Log one change; `done(None)` when every reader here sees it. Raises QueueFull."""
        record = encode_change(change)
        if not self._appender.room(len(record.body)):
            raise QueueFull("the broker has more in flight than its limit; pause, then retry")
        batch = self._appender.open()
        at = len(batch.bodies)
        body = encode_record(
            topic_field(record.topic),
            b"",
            record.body,
            0,
            0,
            0,
            batch.stamp_ms,
            self._host,
            self._host,
            queue_offset=self._offsets.take(record.topic, 0),
            store_timestamp_ms=batch.stamp_ms,
        )
        batch.bodies.append(body)
        batch.size += len(body)
        batch.units.append(OwnRecords(at, done, self._when_dispatched))

    def is_creating(self, topic: str) -> bool:
        """Is the topic's creation on its way?"""
        return topic in self._creating

    def create_topic(self, config: TopicConfig, done: Done) -> None:
        """Create a topic once, however many ask; every `done` is told. Raises QueueFull."""
        waiting = self._creating.get(config.name)
        if waiting is not None:
            self._add(waiting, done)
            return
        waiting = self._creating[config.name] = []
        self._add(waiting, done)

        def finished(error: Exception | None) -> None:
            self._tell(self._creating.pop(config.name), error)

        try:
            self.write(TopicsChanged(create=(config,)), finished)
        except QueueFull:
            self._creating.pop(config.name)
            self.waiting -= 1
            raise

    def create_group(self, name: str, *, retry_topic: bool, done: Done) -> None:
        """Create a consumer group's settings and, unless it is there, its retry topic."""
        waiting = self._groups_creating.get(name)
        if waiting is not None:
            self._add(waiting, done)
            return
        waiting = self._groups_creating[name] = []
        self._add(waiting, done)

        def finished(error: Exception | None) -> None:
            self._tell(self._groups_creating.pop(name), error)

        try:
            if retry_topic:
                retry = TopicConfig(RETRY_PREFIX + name, 1, 1)
                self.write(TopicsChanged(create=(retry,)), _ignore)
            self.write(GroupsChanged(put=(new_group(name),)), finished)
        except QueueFull:
            self._groups_creating.pop(name)
            self.waiting -= 1
            raise

    def _add(self, waiting: list[Done], done: Done) -> None:
        if self.waiting >= WAITING_MAX:
            raise QueueFull("too many requests wait for topics to be created; pause, then retry")
        self.waiting += 1
        waiting.append(done)

    def _tell(self, waiting: list[Done], error: Exception | None) -> None:
        self.waiting -= len(waiting)
        for done in waiting:
            done(error)


def _ignore(error: Exception | None) -> None:
    """The group's own record follows in the same batch and tells how both ended."""
