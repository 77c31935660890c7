"""Which queues get their first message from entries of the replicated log. Pure.

Read before the entries are dispatched, so that the files of these queues can be made elsewhere
(queues/first_files.py). The rules are those of `Dispatcher`; what is missed here, it makes itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from commitlog.dispatch.columns import Stretch
from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.records.message_fast import scan_record
from commitlog.records.message_layout import HEAD_SIZE, MAGIC_V1
from commitlog.records.places import is_possible
from commitlog.records.record import HEADER_SIZE, MAGIC_BLANK, MAGIC_ENTRY
from commitlog.records.sys_flag import HOSTS_V6, INNER_BATCH, goes_to_queue

# Of an entry: magic, size; of its message: magic, queue id, queue offset, sysFlag, body size.
_ENTRY = struct.Struct(">ii44xi4xi4xq8xi44xi")
_TWO_INTS = struct.Struct(">ii")

assert _ENTRY.size == HEADER_SIZE + HEAD_SIZE

QueueKey = tuple[bytes, int]


def new_queues(
    data: Buffer, stretches: Sequence[Stretch], queues: ConsumeQueues
) -> dict[QueueKey, None]:
    """(encoded topic, queue id) of queues that have no file and get offset 0 from `data`, in order.

    `data`: whole entries; `stretches`: what `accel_columns.read_stretches` made of it, if anything.
    Queues of inner batches are not among them, nor are those that begin late.
    """
    found: dict[QueueKey, None] = {}
    for begin, stop, columns in stretches or (Stretch(0, len(data), None),):
        if columns is None:
            firsts: Iterator[QueueKey] = _read_firsts(bytes(data[begin:stop]))
        else:
            firsts = (
                (rows.topic, rows.queue_id) for rows in columns.queues if not rows.first_offset
            )
        for key in firsts:
            queue = queues.by_topic.get(key[0], {}).get(key[1])
            if queue is None or not (queue.max_offset or queue.log.file_starts):
                found[key] = None
    return found


def _read_firsts(data: bytes) -> Iterator[QueueKey]:
    """Keys of messages with offset 0 in plain queues; ends at bytes where no entry begins."""
    at, last_start = 0, len(data) - _ENTRY.size
    while at <= last_start:
        begin = at
        magic, step, kind, queue_id, offset, flag, body_size = _ENTRY.unpack_from(data, at)
        if magic == MAGIC_BLANK:
            step = _TWO_INTS.unpack_from(data, at)[1]
        elif magic != MAGIC_ENTRY:
            return
        if step < _TWO_INTS.size:
            return
        at += step
        if magic == MAGIC_BLANK or offset or flag & INNER_BATCH or not goes_to_queue(flag):
            continue
        if kind == MAGIC_V1 and not flag & HOSTS_V6 and 0 <= body_size < step - _ENTRY.size:
            topic_at = begin + _ENTRY.size + body_size
            topic = data[topic_at + 1 : topic_at + 1 + data[topic_at]]
        else:
            try:
                topic = scan_record(data, begin + HEADER_SIZE).topic
            except StoreDamaged:
                continue
        if is_possible(topic, queue_id, offset):
            yield topic, queue_id
