"""Outcomes of half messages as records of the log; each names the half as its origin (R17).

    committed    record in the real topic and queue, sysFlag commit, then an op record
    rolled back  op record: topic RMQ_SYS_TRANS_OP_HALF_TOPIC, TAGS=d, body "queue offset,"
    given up     copy in TRANS_CHECK_MAX_TIME_TOPIC
    resumed      of such a copy: a half again, with the copy as its origin

One outcome of a half is on its way at a time; who asks for the same again is told when it is there.
What a leadership leaves on its way is in the log before the next one serves, or nowhere: so nothing
is delivered twice. A crash between a commit's two records leaves the first: the op record is for
RocketMQ's own tools, the half is settled without it.
"""

from __future__ import annotations

from typing import Final

from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.own_records import Done, OwnRecords, WhenDispatched
from cluster.core.access.needs import Needs, as_producer, to_publish
from cluster.core.delay.folds import real_place
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.transactions.halves import HalfTable, Outcome
from cluster.errors import QueueFull, ServerError
from commitlog.records import property_names as names
from commitlog.records.hosts import pack_host
from commitlog.records.message import Message, decode_message
from commitlog.records.message_fast import encode_record, scan_record, topic_field
from commitlog.records.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from commitlog.records.properties import without_property
from commitlog.records.sys_flag import TRANSACTION_COMMIT
from dledger.errors import OutcomeUnknown

_OP_PROPERTIES: Final = b"TAGS\x01d\x02"
_TRAN_MSG: Final = names.TRANSACTION_PREPARED.encode()


class ReadHalf:
    """A half message, or the copy of one, as it stands in the log."""

    __slots__ = ("message", "position", "properties", "queue_id", "queue_offset", "topic")

    def __init__(self, position: int, data: bytes) -> None:
        """Raises StoreDamaged, ServerError when it does not say where it belongs."""
        record = scan_record(data)
        place = real_place(record._replace(topic=HALF_TOPIC.encode()))
        if place.topic == HALF_TOPIC.encode():
            raise ServerError(f"the message at {position} does not say which topic it is for")
        self.position, self.properties = position, record.properties
        self.queue_offset = record.queue_offset
        self.topic, self.queue_id = place.topic.decode(), place.queue_id
        self.message: Message = decode_message(data, verify_body=False)

    @property
    def group(self) -> str:
        """The producer group that decides."""
        return self.message.properties.get(names.PRODUCER_GROUP, "")

    @property
    def needs(self) -> Needs:
        """To be asked about it, and to decide: as to send it."""
        return to_publish(self.topic) | as_producer(self.group)


class Outcomes:
    """Used on a leader that is ready."""

    def __init__(
        self,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        table: HalfTable,
        reader: RecordReader,
        *,
        host: bytes,
        when_dispatched: WhenDispatched,
    ) -> None:
        self._appender, self._offsets, self.table = appender, offsets, table
        self._reader, self._host = reader, host
        self._when_dispatched = when_dispatched
        self._under_way: dict[int, tuple[Outcome, list[Done]]] = {}
        #: Outcomes that this leader logged, by kind.
        self.counts = dict.fromkeys(Outcome, 0)

    def read(self, position: int) -> ReadHalf:
        """Raises NotFound, StoreDamaged or ServerError."""
        return ReadHalf(position, bytes(self._reader.record(position)))

    def end(self, half: ReadHalf, outcome: Outcome, done: Done) -> None:
        """Log an outcome; `done(None)` when the table shows it, or an earlier one of that kind.

        Raises QueueFull; then nothing is logged.
        """
        done = self._appender.bound(done)
        under_way = self._under_way.get(half.position)
        if under_way is not None:
            first, waiting = under_way
            waiting.append(done if first is outcome else _after(first, done))
            return
        size = half.message.record_size + 512  # the op record, or what else is added
        if not self._appender.has_capacity(size):
            raise QueueFull("the broker has more in flight than its limit; pause, then retry")
        batch = self._appender.open()
        self._write(batch, half, outcome)
        batch.size += size
        waiting = [done]
        self._under_way[half.position] = (outcome, waiting)
        self.counts[outcome] += 1

        def ended(error: Exception | None) -> None:
            if self._is_under_way(half.position, waiting):
                del self._under_way[half.position]
            for waiter in waiting:
                waiter(error)

        batch.units.append(OwnRecords(len(batch.bodies) - 1, ended, self._when_dispatched))

    def _is_under_way(self, position: int, waiting: list[Done]) -> bool:
        """False: that was of an earlier leadership."""
        under_way = self._under_way.get(position)
        return under_way is not None and under_way[1] is waiting

    def leadership_ended(self) -> None:
        """Tell all waiting clients that the outcome is unknown; the next leader finds in the log
        which ones are there.
        """
        under_way, self._under_way = self._under_way, {}
        unknown = OutcomeUnknown("leadership ended before the outcome was known; ask again")
        for _, waiting in under_way.values():
            told, waiting[:] = list(waiting), []
            for waiter in told:
                waiter(unknown)

    def _write(self, batch: Batch, half: ReadHalf, outcome: Outcome) -> None:
        """Add an outcome's records, the deciding one first: those after it may be lost."""
        if outcome is Outcome.COMMITTED:
            self._copy(batch, half, half.topic, half.queue_id, TRANSACTION_COMMIT)
            self._op(batch, half, origin=0)
        elif outcome is Outcome.ROLLED_BACK:
            self._op(batch, half, origin=half.position)
        elif outcome is Outcome.GIVEN_UP:
            self._copy(batch, half, CHECK_MAX_TIME_TOPIC, 0, 0)
        else:
            self._copy(batch, half, HALF_TOPIC, 0, 0)

    def _copy(self, batch: Batch, half: ReadHalf, topic: str, queue_id: int, sys_flag: int) -> None:
        message, properties = half.message, half.properties
        if sys_flag == TRANSACTION_COMMIT:
            properties = without_property(properties, _TRAN_MSG)
        batch.bodies.append(
            encode_record(
                topic_field(topic),
                properties,
                message.body,
                queue_id,
                message.flag,
                message.sys_flag | sys_flag,
                message.born_timestamp_ms,
                pack_host(message.born_host),
                self._host,
                message.reconsume_times,
                half.position,
                self._offsets.following(topic, queue_id),
                0,
                batch.stamp_ms,
            )
        )
        self._offsets.take(topic, queue_id)

    def _op(self, batch: Batch, half: ReadHalf, *, origin: int) -> None:
        batch.bodies.append(
            encode_record(
                topic_field(OP_HALF_TOPIC),
                _OP_PROPERTIES,
                b"%d," % half.queue_offset,
                0,
                0,
                0,
                batch.stamp_ms,
                self._host,
                self._host,
                0,
                origin,
                self._offsets.following(OP_HALF_TOPIC, 0),
                0,
                batch.stamp_ms,
            )
        )
        self._offsets.take(OP_HALF_TOPIC, 0)


def other_outcome(first: Outcome) -> ServerError:
    """The error for a client that asks for another outcome than the first."""
    what = first.name.lower().replace("_", " ")
    return ServerError(
        f"the transaction was {what} already, and the first outcome counts; leave it so"
    )


def _after(first: Outcome, done: Done) -> Done:
    def ended(error: Exception | None) -> None:
        done(error if error is not None else other_outcome(first))

    return ended
