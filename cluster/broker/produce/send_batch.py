"""Client batches (320): every item a record of its own, all next to each other.

Source: docs/spec/remoting.md 2.2.

A batch is answered as a whole. Of a repeated one whose first items survived a leader change, only
the missing rest is stored, and the answer names all of them (R8).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

from cluster.broker.kernel.net.refusals import to_service_error
from cluster.broker.kernel.read.reader import Place
from cluster.broker.kernel.write.batch import Batch, Cursor
from cluster.broker.kernel.write.dedup import NOBODY, read_numbers
from cluster.broker.kernel.write.repeats import Numbers
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.broker.produce.batch_alike import alike_records, items_alike
from cluster.broker.produce.repeated import is_repeat, originals
from cluster.broker.produce.send_context import SendClient, SendContext
from cluster.broker.produce.stored_properties import check_batch_item
from cluster.errors import ClusterError, InvalidRequest
from cluster.protocol.send import SendRequest
from cluster.protocol.send_response import refuse_send
from commitlog.errors import MessageTooLarge, StoreError
from commitlog.records import accel
from commitlog.records.batch import BATCH_COUNT_MAX, ITEM_SIZE_MIN, BatchItem, decode_client_batch
from commitlog.records.checksum import crc32
from commitlog.records.message_fast import encode_record
from commitlog.records.message_layout import HEAD_SIZE, HEADS, MAGIC_V1
from commitlog.records.producer_numbers import PRODUCER
from commitlog.records.properties import PROPERTIES_SIZE_MAX
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import Index
from dledger.errors import DledgerError

pack_head = HEADS[0].pack  # both hosts IPv4
_ITEM = struct.Struct(">i8xii")  # total, flag and body size of one item (docs/spec/store.md 1.8)
# A record's head, in the parts that messages of one shape share and the two that differ: size and
# magic | body CRC | queue id and flag | queue offset | the rest (docs/spec/store.md 1.1)
_VARIES = struct.Struct(">8sI8sq60s")
assert _VARIES.size == HEAD_SIZE


class BatchSend:
    """One batch in flight: `number` records from place `at` of the turn's batch on."""

    __slots__ = ("at", "client", "context", "number", "numbers", "offset", "queue", "request")
    outlives: ClassVar[bool] = True

    def __init__(
        self,
        client: SendClient,
        context: SendContext,
        request: SendRequest,
        numbers: Numbers | None,
        *,
        queue: int,
        offset: int,
        at: int,
        number: int,
    ) -> None:
        self.client, self.context, self.request = client, context, request
        self.numbers = numbers
        self.queue, self.offset, self.at, self.number = queue, offset, at, number

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Answer the whole batch: all addresses, or the error, unless it is asked again of the next
        leader. A oneway batch gets no answer.
        """
        if self.request.is_oneway:
            return
        if error is not None:
            own = self.numbers is not None
            if not own and self.context.asked_again(self.client, [self.request], error):
                return
            refusal = to_service_error(error, self.context.leader_address())
            self.client.write(refuse_send(self.request, refusal))
            return
        ends = self.at + self.number
        positions = [position + HEADER_SIZE for position in batch.positions[self.at : ends]]
        first = Place(Index(batch.first_index + self.at), batch.term, self.offset, positions[0])
        if self.numbers is not None and self.numbers.skip:
            try:
                places = originals(self.context, self.request, self.queue, self.numbers)
            except (ClusterError, StoreError) as damaged:  # the part that was stored before
                refusal = to_service_error(damaged, self.context.leader_address())
                self.client.write(refuse_send(self.request, refusal))
                return
            first = places[0]
            positions = [place.position for place in places] + positions
        self.client.write(
            self.context.responder.stored(
                self.request,
                queue_id=self.queue,
                queue_offset=first.queue_offset,
                position=first.position,
                index=first.index,
                term=first.term,
                more_positions=positions[1:],
            )
        )


def take_batch(
    context: SendContext, client: SendClient, request: SendRequest, target: SendTarget, batch: Batch
) -> None:
    """A client batch into the turn's, whole or not at all. Raises the error for the client."""
    if len(request.body) > context.body_size_max:
        raise MessageTooLarge("batch", len(request.body), context.body_size_max)
    records = usual_records(context, client, request, target, batch)
    if records:
        _take_usual(context, client, request, target, batch, records)
        return
    items = decode_client_batch(request.body)
    if not items:
        raise InvalidRequest("the batch has no message; send at least one")
    for item in items:
        if b"DEL" in item.properties:
            check_batch_item(item.properties)
    queue = context.pick_queue(target)
    numbers: Numbers | None = None
    cursor: Cursor | None = None
    if any(PRODUCER in item.properties for item in items):
        numbers = _admit(context, request, items, target, queue, batch)
        if is_repeat(context, client, request, queue, numbers, batch, len(items)):
            return
        context.owners.claim(numbers.producer, request.sender)
        cursor = context.cursors.cursor(numbers.producer, target.streams[queue])
        if not numbers.skip and numbers.sequence > cursor.next:
            cursor.begin(numbers.sequence)
        if target.queue_id >= 0 and target.answers_own:
            target.wanted, target.sender = cursor, request.sender
        items = items[numbers.skip :]
    offset, at = target.row[queue], len(batch.bodies)
    encoded = [
        encode_record(
            target.topic,
            item.properties,
            item.body,
            queue,
            item.flag,
            target.sys_flag,
            request.born_timestamp_ms,
            client.born_host,
            context.store_host,
            target.reconsume_times,
            0,
            offset + number,
            0,
            batch.stamp_ms,
        )
        for number, item in enumerate(items)
    ]
    batch.bodies.extend(encoded)  # all of them, or none when one cannot be made
    context.messages += len(items)
    target.row[queue] = offset + len(items)
    if cursor is not None:
        cursor.take(batch, Index(batch.first_index + at), len(items))
    unit = BatchSend(
        client, context, request, numbers, queue=queue, offset=offset, at=at, number=len(items)
    )
    _wait(batch, unit, target)


def usual_records(
    context: SendContext, client: SendClient, request: SendRequest, target: SendTarget, batch: Batch
) -> Sequence[bytes | memoryview]:
    """The records of a batch of our own producers with the expected numbers; else none.

    An item's end, properties size and properties, is the end of its record too, so that each
    record is joined from slices of the request.
    """
    data, cursor = request.body, target.wanted
    if cursor is NOBODY or target.sender != request.sender:
        return []
    if len(client.born_host) != 8 or len(context.store_host) != 8:
        return []
    view, number = memoryview(data), cursor.next
    queue, offset, topic = target.queue_id, target.row[target.queue_id], target.topic
    shape: tuple[int, int, int] | None = None  # total, flag and body size of the item before
    front = middle = rest = head = b""
    total = body_size = 0
    records: list[bytes] = []
    numpy = accel.numpy()
    unpack, pack = _ITEM.unpack_from, _VARIES.pack
    at, end = 0, len(data)
    while at + ITEM_SIZE_MIN <= end:
        found = unpack(data, at)
        if found != shape:
            shape = total, flag, body_size = found
            properties_size = total - body_size - 22
            if body_size < 0 or not 0 <= properties_size <= PROPERTIES_SIZE_MAX:
                return []
            blank = pack_head(
                target.fixed_size - 2 + total - 20, MAGIC_V1, 0, queue, flag, 0, 0,
                target.sys_flag, request.born_timestamp_ms, client.born_host, batch.stamp_ms,
                context.store_host, target.reconsume_times, 0, body_size,
            )  # fmt: skip
            front, middle, rest = blank[:8], blank[12:20], blank[28:]
            head = properties_size.to_bytes(2, "big") + cursor.head
            if at == 0 and numpy is not None and (count := items_alike(data, total)):
                alike = alike_records(
                    numpy, data, count, head=blank, front=head, topic=topic,
                    number=number, offset=offset,
                )  # fmt: skip
                if alike:
                    return alike
        if len(records) == BATCH_COUNT_MAX:
            return []  # read one by one, it is refused
        body_at = at + 20
        body_end, stop = body_at + body_size, at + total
        if (
            stop > end
            or not data.startswith(b"%b%d\x02" % (head, number), body_end)
            or data.find(b"DEL", body_end, stop) >= 0
        ):
            return []
        body = view[body_at:body_end]
        start = pack(front, crc32(body) & 0x7FFFFFFF, middle, offset, rest)
        records.append(b"".join((start, body, topic, view[body_end:stop])))
        offset += 1
        number += 1
        at = stop
    return records if at == end else []


def _take_usual(
    context: SendContext,
    client: SendClient,
    request: SendRequest,
    target: SendTarget,
    batch: Batch,
    records: Sequence[bytes | memoryview],
) -> None:
    queue, at, number = target.queue_id, len(batch.bodies), len(records)
    offset = target.row[queue]
    batch.bodies.extend(records)
    context.messages += number
    target.row[queue] = offset + number
    target.wanted.take(batch, Index(batch.first_index + at), number)
    unit = BatchSend(
        client, context, request, None, queue=queue, offset=offset, at=at, number=number
    )
    _wait(batch, unit, target)


def _wait(batch: Batch, unit: BatchSend, target: SendTarget) -> None:
    """For a majority's disks, or for its memory. A part that was stored before waits for disks."""
    is_repeat = unit.numbers is not None and unit.numbers.skip
    if target.is_early and not is_repeat and not unit.request.is_oneway:
        batch.early.append(unit)
        batch.early_count += unit.number
    else:
        batch.units.append(unit)


def _admit(
    context: SendContext,
    request: SendRequest,
    items: Sequence[BatchItem],
    target: SendTarget,
    queue: int,
    batch: Batch,
) -> Numbers:
    """The numbers of a batch. Raises InvalidRequest when they do not count up by one, Unauthorized
    for an id of another account, and the errors of `check`.
    """
    producer, sequence = read_numbers(items[0].properties)
    head = b"%b%b\x02__SEQ\x01" % (PRODUCER, producer.encode())
    for number, item in enumerate(items):
        if not item.properties.startswith(b"%b%d\x02" % (head, sequence + number)) and (
            read_numbers(item.properties) != (producer, sequence + number)
        ):
            raise InvalidRequest(
                "__PID or __SEQ of the batch do not go on; send one __PID, and __SEQ counted up by "
                "one"
            )
    context.owners.check(producer, request.sender)
    context.cursors.write_back(batch)
    admission = context.producers.check(producer, target.streams[queue], sequence, len(items))
    return Numbers(producer, sequence, admission.skip, admission.wait_for)
