"""Find the queues that get their first message from entries of the replicated log. Pure.

The caller asks before it dispatches the entries, so that a thread can make the files of these
queues meanwhile (queues/first_files.py). The rules are those of `Dispatcher`, which itself makes
the files of a queue that is not found here.
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

# The entry's magic and size; its message's magic, queue id, queue offset, sysFlag and body size.
_ENTRY = struct.Struct(">ii44xi4xi4xq8xi44xi")
_TWO_INTS = struct.Struct(">ii")

assert _ENTRY.size == HEADER_SIZE + HEAD_SIZE

QueueKey = tuple[bytes, int]


def new_queues(
    data: Buffer, stretches: Sequence[Stretch], queues: ConsumeQueues
) -> dict[QueueKey, None]:
    """Keys (encoded topic, queue id) of queues without a file that begin in `data`, in order.

    `data`: whole entries; `stretches`: the result of `accel_columns.read_stretches`, or empty.
    Left out: queues of inner batches, and queues whose first message here has a later offset.
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
