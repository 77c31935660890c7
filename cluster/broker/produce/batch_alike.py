"""Records of a client batch with items of equal size, made all at once; needs numpy.

    item    size | magic | crc | flag | body size | body | properties size, properties
                                                    │        │
    record  head, with CRC and queue offset of its own │ body │ topic │ properties size, properties

What a producer sends by itself is alike in most batches. `send_batch.usual_records` says what is
checked, and makes the records of all other batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from commitlog.records.batch import BATCH_COUNT_MAX
from commitlog.records.checksum import crc32
from commitlog.records.message_layout import HEAD_SIZE

ALIKE_MIN: Final = 16
"""Below, making them one by one is faster."""

_ITEM_HEAD_SIZE: Final = 20
_CRC = slice(8, 12)  # in a record's head
_QUEUE_OFFSET = slice(20, 28)


def items_alike(data: bytes, total: int) -> int:
    """How many items of `total` bytes the batch may have; 0 when they are few or not alike."""
    count, rest = divmod(len(data), total)
    return 0 if rest or not ALIKE_MIN <= count <= BATCH_COUNT_MAX else count


def alike_records(
    numpy: Any, data: bytes, count: int, *, head: bytes, front: bytes, topic: bytes,
    number: int, offset: int,
) -> Sequence[memoryview]:  # fmt: skip
    """The records of `count` items of one size; none when an item differs from the expected form.

    Args:
        head: of every record, but for its CRC and queue offset.
        front: how every item's properties begin, their size included; its number follows.
        topic: the topic field of every record.
        number: of the first item; they count up by one.
        offset: of the first item in its queue.
    """
    rows = numpy.frombuffer(data, numpy.uint8).reshape(count, -1)
    total = rows.shape[1]
    body_end = _ITEM_HEAD_SIZE + int.from_bytes(data[16:20], "big")
    numbers = _numbers(front, number, count)
    digits_end = body_end + len(numbers) // count
    heads = rows[:, :_ITEM_HEAD_SIZE].copy()
    heads[:, 4:12] = 0  # magic and crc of an item mean nothing
    properties = rows[:, body_end:].tobytes()
    if (
        heads.tobytes() != heads[0].tobytes() * count
        or len(numbers) % count
        or digits_end > total
        or rows[:, body_end:digits_end].tobytes() != numbers
        or b"DEL" in properties
    ):
        return ()
    view = memoryview(data)
    size = body_end - _ITEM_HEAD_SIZE
    crcs = [crc32(view[at : at + size]) for at in range(_ITEM_HEAD_SIZE, len(data), total)]
    topic_at = HEAD_SIZE + size
    properties_at = topic_at + len(topic)
    records = numpy.empty((count, properties_at + total - body_end), numpy.uint8)
    records[:, :HEAD_SIZE] = numpy.frombuffer(head, numpy.uint8)
    records[:, _CRC] = _bytes_of(numpy, numpy.array(crcs, numpy.int64) & 0x7FFFFFFF, ">u4")
    records[:, _QUEUE_OFFSET] = _bytes_of(numpy, numpy.arange(offset, offset + count), ">i8")
    records[:, HEAD_SIZE:topic_at] = rows[:, _ITEM_HEAD_SIZE:body_end]
    records[:, topic_at:properties_at] = numpy.frombuffer(topic, numpy.uint8)
    records[:, properties_at:] = rows[:, body_end:]
    step = records.shape[1]
    made = memoryview(records.reshape(-1))
    return [made[at : at + step] for at in range(0, len(made), step)]


def _numbers(front: bytes, number: int, count: int) -> bytes:
    form = front.replace(b"%", b"%%") + b"%d\x02"
    return b"".join(map(form.__mod__, range(number, number + count)))


def _bytes_of(numpy: Any, values: Any, kind: str) -> Any:
    return values.astype(kind).view(numpy.uint8).reshape(len(values), -1)
