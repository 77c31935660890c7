"""Send requests → records → answers. The hot path: everything of one socket read in one loop.

    SendRequest ─► target (checked once per template) ─► record, queue offset ─► this turn's batch
                                                       committed and applied ─► one write

Each message costs one record (its body copied once) and one tuple; what can go wrong, a producer's
numbers apart, is looked at once per template. Stored properties: the client's, then UNIQ_KEY if it
is missing, then MSG_REGION, TRACE_ON and CLUSTER as precomputed bytes (remoting.md 2.2 e).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import error as StructError
from typing import Protocol

from cluster.broker.appender import Appender, Batch, Note
from cluster.broker.config import BrokerConfig
from cluster.broker.dedup import RepeatsWaiting, read_numbers
from cluster.broker.refusals import to_service_error
from cluster.broker.send_batch import BatchSend, Place
from cluster.broker.send_target import SendTarget, check_name, make_target
from cluster.core.apply import AppliedState
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.errors import (
    ClusterError,
    InvalidRequest,
    QueueFull,
    RequestNotSupported,
    TopicNotFound,
)
from cluster.protocol.send import SendRequest, SendTemplate
from cluster.protocol.send_response import SendResponder, refuse_send
from commitlog.batch import BatchItem, decode_client_batch
from commitlog.errors import MessageTooLarge, StoreError
from commitlog.ids import UniqueKeyGenerator
from commitlog.message_fast import encode_record
from commitlog.properties import PROPERTIES_SIZE_MAX, without_property
from commitlog.record import HEADER_SIZE
from dledger.core.types import Index
from dledger.errors import DledgerError
from dledger.producers import ProducerTable

TARGETS_MAX = 4096  # per connection; templates are bounded alike
ENTRY_EXTRA = 256  # what an entry weighs beside its body, about; for the limit in bytes only

_ADDED = (b"MSG_REGION", b"TRACE_ON", b"CLUSTER", b"POP_CK", b"UNIQ_KEY")


class SendClient(Protocol):
    """The connection a send came on."""

    born_host: bytes
    targets: dict[SendTemplate, SendTarget]
    targets_epoch: int

    def write(self, data: bytes) -> None: ...


class SendGroup:
    """Single sends of one socket read: (request, queue id, queue offset, place in the batch)."""

    __slots__ = ("answers", "client", "path")

    def __init__(self, client: SendClient, path: SendPath) -> None:
        self.client, self.path = client, path
        self.answers: list[tuple[SendRequest, int, int, int]] = []

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        if error is not None:
            refusal = to_service_error(error, self.path.leader_address())
            frames = [refuse_send(answer[0], refusal) for answer in self.answers]
        else:
            stored, positions = self.path.responder.stored, batch.positions
            first, term = batch.first_index, batch.term
            frames = [
                stored(
                    request,
                    queue_id=queue,
                    queue_offset=offset,
                    position=positions[at] + HEADER_SIZE,
                    index=first + at,
                    term=term,
                )
                for request, queue, offset, at in self.answers
            ]
        self.client.write(b"".join(frames))


class SendPath:
    """All sends of a leader."""

    def __init__(
        self,
        config: BrokerConfig,
        state: AppliedState,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        repeats: RepeatsWaiting,
        *,
        responder: SendResponder,
        store_host: bytes,
        unique_keys: UniqueKeyGenerator,
        create_topic: Callable[[SendClient, SendRequest], None],
        locate: Callable[[Index], Place],
        applied: Callable[[], Index],
        leader_address: Callable[[], str | None],
    ) -> None:
        self._state, self._appender, self._offsets = state, appender, offsets
        self._producers: ProducerTable = state.producers
        self._repeats, self._store_host = repeats, store_host
        self._unique_keys = unique_keys
        self._create_topic, self.locate = create_topic, locate
        self._applied = applied
        self._body_size_max = config.body_size_max
        self._auto_create = config.auto_create_topics
        self.responder, self.leader_address = responder, leader_address
        self._suffix = (
            f"MSG_REGION\x01{config.region}\x02TRACE_ON\x01{str(config.trace_on).lower()}\x02"
            f"CLUSTER\x01{config.cluster_name}\x02"
        ).encode()
        self._turn = 0
        self.epoch = 0
        self.messages = self.bytes = self.refused = 0

    def invalidate(self) -> None:
        """Leadership began or ended, or a topic changed: every target is made again."""
        self.epoch += 1

    def handle(self, client: SendClient, requests: Sequence[SendRequest]) -> None:
        """Take the sends of one socket read; answers come when their entries are applied."""
        if client.targets_epoch != self.epoch or len(client.targets) > TARGETS_MAX:
            client.targets.clear()
            client.targets_epoch = self.epoch
        targets = client.targets
        batch = self._appender.open()
        bodies = batch.bodies
        group = SendGroup(client, self)
        for request in requests:
            target = targets.get(request.template)
            try:
                if target is None:
                    target = self._target(client, request)
                    if target is None:
                        continue
                if target.is_batch:
                    self._batch(client, request, target, batch)
                    continue
                size = len(request.body) + len(request.properties) + ENTRY_EXTRA
                if not self._appender.room(size):
                    raise QueueFull(
                        "the broker has more in flight than its limit; pause, then retry"
                    )
                self._single(client, request, target, batch, group)
            except (ClusterError, DledgerError, StoreError) as error:
                self._refuse(client, request, error)
                continue
            except StructError as error:
                wrong = InvalidRequest(f"a field of the message is out of range: {error}")
                self._refuse(client, request, wrong)
                continue
            batch.size += size
        if group.answers:
            batch.units.append(group)
        self.messages += len(bodies)

    def _single(
        self,
        client: SendClient,
        request: SendRequest,
        target: SendTarget,
        batch: Batch,
        group: SendGroup,
    ) -> None:
        """One message into the batch. Raises what the client is told; nothing is kept then."""
        body = request.body
        if len(body) > self._body_size_max:
            raise MessageTooLarge("body", len(body), self._body_size_max)
        queue = target.queue_id
        if queue < 0:
            self._turn += 1
            queue = self._turn % target.write_queues
        row, bodies = target.row, batch.bodies
        at = len(bodies)
        properties = request.properties
        note = None
        if b"__PID\x01" in properties:
            note = self._admit(client, request, target.streams[queue], queue, batch)
            if note is None:
                return
        offset = row[queue]
        bodies.append(
            encode_record(
                target.topic,
                self._stored(properties, target),
                body,
                queue,
                target.flag,
                target.sys_flag,
                request.born_timestamp_ms,
                client.born_host,
                self._store_host,
                target.reconsume_times,
                0,
                offset,
                0,
                batch.stamp_ms,
            )
        )
        row[queue] = offset + 1
        if note is not None:
            self._producers.appended(*note)
            batch.notes.append(note)
        if not request.flag & 2:
            group.answers.append((request, queue, offset, at))

    def _stored(self, properties: bytes, target: SendTarget) -> bytes:
        """The property block as it is stored."""
        if properties and properties[-1] != 2:
            properties += b"\x02"
        if (
            b"MSG_REGION\x01" in properties
            or b"CLUSTER\x01" in properties
            or b"POP_CK\x01" in properties
        ):
            for name in _ADDED[:4]:
                properties = without_property(properties, name)
        if b"DELAY" in properties:
            check_delay(properties, target)
        if b"UNIQ_KEY\x01" in properties:
            properties += self._suffix
        else:
            properties = b"%bUNIQ_KEY\x01%b\x02%b" % (
                properties,
                self._unique_keys.next().encode(),
                self._suffix,
            )
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise MessageTooLarge("properties", len(properties), PROPERTIES_SIZE_MAX)
        return properties

    # -- a producer's numbers ----------------------------------------------------------------------

    def _admit(
        self, client: SendClient, request: SendRequest, stream: str, queue: int, batch: Batch
    ) -> Note | None:
        """The note of a new message; None for a repeat, whose answer is on its way."""
        producer, sequence = read_numbers(request.properties)
        admission = self._producers.check(producer, stream, sequence)
        if not admission.skip:
            index = Index(batch.first_index + len(batch.bodies))
            return Note(producer, stream, sequence, 1, index)
        self.answer_repeat(client, request, queue, admission.wait_for, (admission.first_index,))
        return None

    def answer_repeat(
        self,
        client: SendClient,
        request: SendRequest,
        queue: int,
        wait_for: Index,
        originals: Sequence[Index],
    ) -> None:
        """Answer as the originals at these indexes are, once `wait_for` is applied."""
        if self._repeats.full:
            raise QueueFull("too many repeated sends wait for their originals; pause, then retry")

        def answer(error: DledgerError | None) -> None:
            if error is not None:
                self._refuse(client, request, error)
                return
            places = [self.locate(index) for index in originals]
            frame = self.responder.stored(
                request,
                queue_id=queue,
                queue_offset=places[0].queue_offset,
                position=places[0].position,
                index=originals[0],
                term=places[0].term,
                more_positions=[place.position for place in places[1:]],
            )
            if not request.is_oneway:
                client.write(frame)

        if wait_for <= self._applied():
            answer(None)
        else:
            self._repeats.wait(wait_for, answer)

    # -- batches -----------------------------------------------------------------------------------

    def _batch(
        self, client: SendClient, request: SendRequest, target: SendTarget, batch: Batch
    ) -> None:
        """A client batch (320): every item its own record, all of them next to each other."""
        size = len(request.body) + ENTRY_EXTRA
        if not self._appender.room(size):
            raise QueueFull("the broker has more in flight than its limit; pause, then retry")
        if len(request.body) > self._body_size_max:
            raise MessageTooLarge("batch", len(request.body), self._body_size_max)
        items = decode_client_batch(request.body)
        if not items:
            raise InvalidRequest("the batch has no message; send at least one")
        queue = target.queue_id
        if queue < 0:
            self._turn += 1
            queue = self._turn % target.write_queues
        skip = 0
        originals: tuple[Index, ...] = ()
        note: Note | None = None
        if b"__PID\x01" in items[0].properties:
            skip, wait_for, originals, note = self._admit_batch(items, target, queue, batch)
            if skip == len(items):
                self.answer_repeat(client, request, queue, wait_for, originals)
                return
        row = target.row
        offset = first_offset = row[queue]
        at = len(batch.bodies)
        records = []
        for item in items[skip:]:
            records.append(
                encode_record(
                    target.topic,
                    item.properties,
                    item.body,
                    queue,
                    item.flag,
                    target.sys_flag,
                    request.born_timestamp_ms,
                    client.born_host,
                    self._store_host,
                    target.reconsume_times,
                    0,
                    offset,
                    0,
                    batch.stamp_ms,
                )
            )
            offset += 1
        batch.bodies.extend(records)
        batch.size += size
        row[queue] = offset
        if note is not None:
            self._producers.appended(*note)
            batch.notes.append(note)
        if not request.is_oneway:
            unit = BatchSend(client, self, request, queue, first_offset, at, len(records))
            unit.originals = originals
            batch.units.append(unit)

    def _admit_batch(
        self, items: Sequence[BatchItem], target: SendTarget, queue: int, batch: Batch
    ) -> tuple[int, Index, tuple[Index, ...], Note | None]:
        """How many items are stored, what to wait for, where those are, and the new rest."""
        producer, sequence = read_numbers(items[0].properties)
        for number, item in enumerate(items):
            if b"__PID\x01" not in item.properties or read_numbers(item.properties) != (
                producer,
                sequence + number,
            ):
                raise InvalidRequest("a batch must count __SEQ up by one, with one __PID")
        stream = target.streams[queue]
        admission = self._producers.check(producer, stream, sequence, len(items))
        skip = admission.skip
        known = admission.first_index >= 0
        originals = tuple(
            Index(admission.first_index + number if known else -1) for number in range(skip)
        )
        note = Note(
            producer,
            stream,
            sequence + skip,
            len(items) - skip,
            Index(batch.first_index + len(batch.bodies)),
        )
        return skip, admission.wait_for, originals, note

    # -- targets and refusals ----------------------------------------------------------------------

    def _target(self, client: SendClient, request: SendRequest) -> SendTarget | None:
        """The template's target; None when the request waits for its topic to be created."""
        template = request.template
        check_name(template)
        config = self._state.topics.get(template.topic)
        if config is None:
            if not self._auto_create:
                raise TopicNotFound(
                    f"the topic {template.topic} does not exist; create it and send again"
                )
            self._create_topic(client, request)
            return None
        target = client.targets[template] = make_target(template, config, self._offsets)
        return target

    def _refuse(self, client: SendClient, request: SendRequest, error: Exception) -> None:
        self.refused += 1
        if not request.is_oneway:
            client.write(refuse_send(request, to_service_error(error, self.leader_address())))

    def refuse(self, client: SendClient, request: SendRequest, error: Exception) -> None:
        """Answer a send that waited outside, for its topic or for a leader."""
        self._refuse(client, request, error)


def check_delay(properties: bytes, target: SendTarget) -> None:
    """Delayed delivery is refused, said plainly, rather than delivered at once.

    Raises RequestNotSupported. Retry topics are exempt: a consumer's fallback sends there.
    """
    if target.delays_are_dropped:
        return
    for pair in properties.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if name in (b"TIMER_DELIVER_MS", b"TIMER_DELAY_MS", b"TIMER_DELAY_SEC") or (
            name == b"DELAY" and value not in (b"", b"0")
        ):
            raise RequestNotSupported(
                "delayed delivery is not served by this version; send plainly"
            )
