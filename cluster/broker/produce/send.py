"""Send requests → records → answers. The hot path: everything of one socket read in one loop.

    SendRequest ─► target (checked once per template) ─► record, queue offset ─► this turn's batch
                                                       committed and applied ─► one write

Each message costs one record (its body copied once) and one tuple; what can go wrong, a producer's
numbers apart, is looked at once per template. Stored properties: the client's, then UNIQ_KEY if it
is missing, then MSG_REGION, TRACE_ON and CLUSTER as precomputed bytes (docs/spec/remoting.md 2.2
e).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.write.acknowledging import PROPERTY, is_early_by_property
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.batch import Batch, Cursor
from cluster.broker.kernel.write.dedup import read_numbers
from cluster.broker.kernel.write.placement import Interceptor, Placement
from cluster.broker.kernel.write.repeats import Numbers
from cluster.broker.kernel.write.send_target import SendTarget, check_name, make_target
from cluster.broker.produce.repeated import answer_stored, is_repeat
from cluster.broker.produce.send_batch import take_batch
from cluster.broker.produce.send_context import SendClient, SendContext
from cluster.broker.produce.send_group import (
    DeferredPlace,
    DeferredSend,
    SendGroup,
    early_group,
)
from cluster.broker.produce.stored_properties import StoredProperties
from cluster.core.apply import AppliedState
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.errors import ClusterError, ProducerForgotten, QueueFull
from cluster.protocol.frames import FLAG_ONEWAY
from cluster.protocol.send import SendRequest
from commitlog.errors import MessageTooLarge, StoreError
from commitlog.records.checksum import crc32
from commitlog.records.message_fast import encode_record
from commitlog.records.message_layout import HEADS, MAGIC_V1
from commitlog.records.producer_numbers import PRODUCER
from commitlog.records.properties import PROPERTIES_SIZE_MAX
from dledger.core.types import Index
from dledger.errors import DledgerError, OutcomeUnknown

pack_head = HEADS[0].pack  # both hosts IPv4

TARGETS_MAX = 4096  # per connection; templates are bounded alike
ENTRY_EXTRA = 256  # what an entry weighs beside its body, about; for the limit in bytes only


class SendPath:
    """All sends of a leader."""

    def __init__(
        self,
        config: BrokerConfig,
        state: AppliedState,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        context: SendContext,
        *,
        stored: StoredProperties,
        create_topic: Callable[[SendClient, SendRequest], None],
        interceptors: Sequence[Interceptor],
    ) -> None:
        """`interceptors` are asked in order about messages that may have to wait."""
        self.context = context
        self._state, self._appender, self._offsets = state, appender, offsets
        self._stored, self._create_topic = stored, create_topic
        self._durability, self._interceptors = config.durability, interceptors
        self.epoch = 0

    def invalidate(self) -> None:
        """Leadership began or ended, or a topic changed: every target is made again."""
        self.epoch += 1

    # -- the hot path ------------------------------------------------------------------------------

    def handle(self, client: SendClient, requests: Sequence[SendRequest]) -> None:
        """Take the sends of one socket read; answers come when their entries are applied.

        Usual messages of our own producers take the short way: the number that was expected, a
        UNIQ_KEY, nothing the broker must look into. Everything else goes through `_take_slowly`.
        What is refused is told in one write: a client may have all of its sends refused.
        """
        self.context.hold_refusals(client)
        try:
            self._take_all(client, requests)
        finally:
            self.context.tell_refusals()

    def take_in_doubt(self, client: SendClient, request: SendRequest, after: Index) -> None:
        """A send that an earlier leader may have stored, above `after` (stored_before.py)."""
        try:
            if not answer_stored(self.context, client, request, after):
                self.handle(client, [request])
        except (ClusterError, DledgerError, StoreError) as error:
            self.context.refuse(client, request, error)

    @property
    def refused(self) -> int:
        """How many sends were refused, of all kinds."""
        return self.context.refused

    @property
    def taken(self) -> int:
        """How many messages were taken into the log, or began to wait for their topic."""
        return self.context.messages + self.context.waited

    def refuse(self, client: SendClient, request: SendRequest, error: Exception) -> None:
        """Tell the sender about an error."""
        self.context.refuse(client, request, error)

    def _take_all(self, client: SendClient, requests: Sequence[SendRequest]) -> None:
        if client.targets_epoch != self.epoch or len(client.targets) > TARGETS_MAX:
            client.targets.clear()
            client.targets_epoch = self.epoch
        context = self.context
        batch = self._appender.open()
        bodies, first_index, stamp_ms = batch.bodies, batch.first_index, batch.stamp_ms
        taken = added = 0
        size_left, count_left = self._appender.space_left()
        count_left += len(bodies)
        group = SendGroup(client, context)
        answers, target_of, suffix = group.answers, client.targets.get, self._stored.suffix
        born_host, store_host, suffix_size = client.born_host, context.store_host, len(suffix)
        short_size_max = context.body_size_max if len(born_host) == len(store_host) == 8 else -1
        for request in requests:
            _, template, born_ms, properties, body, flag, sender, _ = request
            target = target_of(template)
            body_size = len(body)
            if (
                target is None
                or body_size > short_size_max
                or not properties.startswith(target.wanted.wanted)
                or sender != target.sender
                or b"\x02UNIQ_KEY\x01" not in properties
                or b"DEL" in properties
                or not properties.endswith(b"\x02")
            ):
                size_left -= self._take_slowly(client, request, target, batch, group, size_left)
                continue
            properties_size = len(properties) + suffix_size
            size = target.fixed_size + properties_size + body_size
            at = len(bodies)
            if size > size_left or at >= count_left or properties_size > PROPERTIES_SIZE_MAX:
                size_left -= self._take_slowly(client, request, target, batch, group, size_left)
                continue
            queue, row = target.queue_id, target.row
            offset = row[queue]
            head = pack_head(
                size, MAGIC_V1, crc32(body) & 0x7FFFFFFF, queue, target.flag, offset, 0,
                target.sys_flag, born_ms, born_host, stamp_ms, store_host,
                target.reconsume_times, 0, body_size,
            )  # fmt: skip
            length = properties_size.to_bytes(2, "big")
            bodies.append(b"".join((head, body, target.topic, length, properties, suffix)))
            row[queue] = offset + 1
            cursor = target.wanted
            if cursor.batch is batch:  # as `take`, without the call
                cursor.last_index = first_index + at  # type: ignore[assignment]
                cursor.next = number = cursor.next + 1
                cursor.wanted = b"%b%d\x02" % (cursor.head, number)
            else:
                cursor.take(batch, Index(first_index + at))
            size_left -= size
            added += size
            taken += 1
            if not flag & FLAG_ONEWAY:
                answers.append((request, queue, offset, at))
        batch.size += added
        if answers:
            batch.units.append(group)
        context.messages += taken
        context.bytes += added

    def _take_slowly(
        self,
        client: SendClient,
        request: SendRequest,
        target: SendTarget | None,
        batch: Batch,
        group: SendGroup,
        size_left: int,
    ) -> int:
        """Any send; mistakes are answered to the client. Returns about how many bytes it added."""
        size = len(request.body) + len(request.properties) + ENTRY_EXTRA
        before = len(batch.bodies)
        try:
            if target is None:
                target = self._target(client, request)
                if target is None:
                    return 0
            if size > size_left or not self._appender.has_capacity(size):
                raise QueueFull("the broker has more in flight than its limit; pause, then retry")
            if target.is_batch:
                take_batch(self.context, client, request, target, batch)
            else:
                self._take(client, request, target, batch, group)
        except OutcomeUnknown as error:  # the table's: it knows nothing of this producer any more
            self.context.refuse(client, request, ProducerForgotten(str(error)))
            return 0
        except (ClusterError, DledgerError, StoreError) as error:
            self.context.refuse(client, request, error)
            return 0
        if len(batch.bodies) == before:
            return 0
        self.context.bytes += sum(map(len, batch.bodies[before:]))
        batch.size += size
        return size

    def _take(
        self,
        client: SendClient,
        request: SendRequest,
        target: SendTarget,
        batch: Batch,
        group: SendGroup,
    ) -> None:
        """One message into the batch, whole or not at all. Raises the error for the client."""
        _, _, born_ms, properties, body, flag, _, _ = request
        context, body_size = self.context, len(body)
        if body_size > context.body_size_max:
            raise MessageTooLarge("body", body_size, context.body_size_max)
        queue = target.queue_id
        if queue < 0:
            queue = context.pick_queue(target)
        is_early = target.is_early
        if not target.answers_own and PROPERTY in properties:
            is_early = is_early_by_property(properties, is_early)
        bodies = batch.bodies
        cursor: Cursor | None = None
        stored = self._stored.block(properties, target)
        if PRODUCER in stored:
            cursor = self._admit(client, request, target, queue, batch, stored)
            if cursor is None:
                return
        topic, at_queue, row, sys_flag = target.topic, queue, target.row, target.sys_flag
        deferred: Placement | None = None
        if target.is_special or b"DEL" in properties:  # DELAY, TIMER_DELAY_…, TIMER_DELIVER_MS
            deferred = self._intercept(request, target, queue, stored, batch.stamp_ms)
            if deferred is not None:
                topic, at_queue, row, stored, sys_flag, recall_handle = deferred
        offset, at = row[at_queue], len(bodies)
        bodies.append(
            encode_record(
                topic,
                stored,
                body,
                at_queue,
                target.flag,
                sys_flag,
                born_ms,
                client.born_host,
                context.store_host,
                target.reconsume_times,
                0,  # never a client's: it names the deferred record that an outcome is of
                offset,
                0,
                batch.stamp_ms,
            )
        )
        context.messages += 1
        row[at_queue] = offset + 1
        if cursor is not None:
            cursor.take(batch, Index(batch.first_index + at))
        if flag & FLAG_ONEWAY:
            return
        if deferred is not None:
            place = DeferredPlace(queue, offset, at, recall_handle)
            batch.units.append(DeferredSend(client, context, request, place))
            return
        if is_early:
            group = early_group(client, context, batch)
        group.answers.append((request, queue, offset, at))
        group.is_own = group.is_own and target.answers_own

    def _intercept(
        self, request: SendRequest, target: SendTarget, queue: int, stored: bytes, stamp_ms: int
    ) -> Placement | None:
        """Where a message goes that must not go into its queue now; None: it may.

        Raises what the client is told.
        """
        for intercept in self._interceptors:
            placement = intercept(request, target, queue, stored, stamp_ms)
            if placement is not None:
                return placement
        return None

    # -- a producer's numbers ----------------------------------------------------------------------

    def _admit(
        self,
        client: SendClient,
        request: SendRequest,
        target: SendTarget,
        queue: int,
        batch: Batch,
        stored: bytes,
    ) -> Cursor | None:
        """The cursor for a new message; None for a repeat, which is answered like its original."""
        context = self.context
        producer, sequence = read_numbers(stored)
        stream = target.streams[queue]
        context.owners.check(producer, request.sender)
        context.cursors.write_back(batch)
        admission = context.producers.check(producer, stream, sequence)
        numbers = Numbers(producer, sequence, admission.skip, admission.wait_for)
        if is_repeat(context, client, request, queue, numbers, batch, 1):
            return None
        context.owners.claim(producer, request.sender)
        cursor = context.cursors.cursor(producer, stream)
        if sequence > cursor.next:
            cursor.begin(sequence)
        if target.queue_id >= 0 and target.answers_own and target.is_usual:
            target.wanted, target.sender = cursor, request.sender
        return cursor

    # -- targets -----------------------------------------------------------------------------------

    def _target(self, client: SendClient, request: SendRequest) -> SendTarget | None:
        """The template's target; None when the request waits for its topic to be created."""
        template = request.template
        check_name(template)
        config = self._state.topics.get(template.topic)
        if config is None:
            self._create_topic(client, request)
            self.context.waited += 1
            return None
        target = make_target(
            template, config, self._offsets, self._durability, is_relayed=client.is_relayed
        )
        client.targets[template] = target
        return target
