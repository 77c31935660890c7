"""Records of the revive log, and messages stored again, on their way into the log.

write(records, queue, done)   done(None) when the tables show all of them
Again                         one message as it is stored again: in its group's retry topic
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.own_records import Done, OwnRecords, WhenDispatched
from cluster.core.pop.names import REVIVE_QUEUES, revive_topic
from cluster.core.pop.records import PopRecord, encode_record
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.errors import QueueFull
from commitlog.files.system import Buffer
from commitlog.records.message_fast import encode_record as encode_message
from commitlog.records.message_fast import topic_field


class Again(NamedTuple):
    """A message that comes back to its group. `origin`: address of its checkpoint; `offset`: its
    queue offset before.
    """

    topic: str
    properties: bytes
    body: Buffer
    flag: int
    sys_flag: int
    born_ms: int
    reconsume_times: int
    origin: int
    offset: int


class ReviveWriter:
    """Used on a leader that is ready."""

    def __init__(
        self,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        *,
        cluster_name: str,
        host: bytes,
        when_dispatched: WhenDispatched,
    ) -> None:
        self._appender, self._offsets, self._host = appender, offsets, host
        self._when_dispatched = when_dispatched
        self._topic = revive_topic(cluster_name)
        self._field = topic_field(self._topic)

    def write(self, records: Sequence[PopRecord], queue: int, done: Done) -> None:
        """Write records of the revive log. Raises QueueFull before any is written."""
        encoded = [encode_record(record) for record in records]
        self._check(sum(len(body) for _, body in encoded))
        batch = self._appender.open()
        queue %= REVIVE_QUEUES
        for tags, body in encoded:
            self._add(
                batch,
                (self._topic, queue),
                encode_message(
                    self._field,
                    b"TAGS\x01%b\x02" % tags,
                    body,
                    queue,
                    0,
                    0,
                    batch.stamp_ms,
                    self._host,
                    self._host,
                    queue_offset=self._offsets.following(self._topic, queue),
                    store_timestamp_ms=batch.stamp_ms,
                ),
            )
        self._wait(batch, done)

    def write_again(self, messages: Sequence[Again], done: Done) -> None:
        """Store messages in their retry topics. Raises QueueFull before any is written."""
        self._check(sum(len(message.body) + len(message.properties) for message in messages))
        batch = self._appender.open()
        for message in messages:
            self._add(
                batch,
                (message.topic, 0),
                encode_message(
                    topic_field(message.topic),
                    message.properties,
                    message.body,
                    0,
                    message.flag,
                    message.sys_flag,
                    message.born_ms,
                    self._host,
                    self._host,
                    message.reconsume_times,
                    message.origin,
                    self._offsets.following(message.topic, 0),
                    0,
                    batch.stamp_ms,
                ),
            )
        self._wait(batch, done)

    def _wait(self, batch: Batch, done: Done) -> None:
        last, bound = len(batch.bodies) - 1, self._appender.bound(done)
        batch.units.append(OwnRecords(last, bound, self._when_dispatched))

    def _check(self, size: int) -> None:
        if not self._appender.has_capacity(size):
            raise QueueFull("the broker has more in flight than its limit; pause, then retry")

    def _add(self, batch: Batch, place: tuple[str, int], body: bytearray) -> None:
        batch.bodies.append(body)
        self._offsets.take(*place)
        batch.size += len(body)
