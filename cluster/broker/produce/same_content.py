"""Compares a repeat with its original: another message under a used number is an error.

    number used ─► where its original is (repeats.py) ─► the record there ─┬ same: answered like it
                   no longer known: answered as a repeat                   └ another: NumberUsed

The log itself is compared, not a digest beside each number: that would grow with every message that
producers send, while a repeat is rare and costs one read of what it sends again. What counts is
what consumers get: body, flag, and the properties that producers set. Names that brokers set or
change (delays, transactions, traces) are left out, since the original has them as they were stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.repeats import Numbers, Originals
from cluster.core.delay.copies import read_pieces
from cluster.errors import NumberUsed
from cluster.protocol.send import SendRequest
from commitlog.files.system import Buffer
from commitlog.records import property_names as names
from commitlog.records.batch import BatchItem, decode_client_batch
from commitlog.records.message_fast import scan_record
from commitlog.records.properties import PAIR_END

_SET_BY_PRODUCERS: Final = frozenset({names.KEYS, names.TAGS, names.UNIQUE_KEY, names.SHARDING_KEY})
_LEFT_OUT: Final = frozenset(
    value.encode()
    for name, value in vars(names).items()
    if name.isupper() and isinstance(value, str) and value not in _SET_BY_PRODUCERS
)
_UNIQUE_KEY: Final = names.UNIQUE_KEY.encode()


def find_other(
    originals: Originals, request: SendRequest, queue: int, numbers: Numbers, batch: Batch
) -> NumberUsed | None:
    """The error for the sender when an original is another message; None when all are the same.

    `batch`: what is not in the log yet. Raises StoreError.
    """
    topic = request.template.topic
    for number, item in enumerate(items_of(request)[: numbers.skip]):
        sequence = numbers.sequence + number
        record = originals.record(numbers.producer, topic, queue, sequence, batch)
        if record is not None and not is_same(record, item):
            offset = scan_record(record).queue_offset
            return NumberUsed(
                f"producer {numbers.producer} has stored another message as number {sequence}, at "
                f"queue offset {offset}, so this one is not stored; give it a higher number, "
                "or send it as a new producer",
                offset,
            )
    return None


def items_of(request: SendRequest) -> Sequence[BatchItem]:
    """The messages of a send."""
    if request.template.is_batch:
        return decode_client_batch(request.body)
    return [BatchItem(request.template.flag, request.body, request.properties)]


def is_same(record: Buffer, item: BatchItem) -> bool:
    """True if consumers would read the same from the stored record and from `item`."""
    stored = read_pieces(record)
    if stored.flag != item.flag or stored.body != item.body:
        return False
    before, now = _content(scan_record(record).properties), _content(item.properties)
    if _UNIQUE_KEY not in now:  # the broker has given the original one
        before.pop(_UNIQUE_KEY, None)
    return before == now


def _content(properties: bytes) -> dict[bytes, bytes]:
    pairs = (pair.partition(b"\x01") for pair in properties.split(PAIR_END))
    return {name: value for name, _, value in pairs if name and value and name not in _LEFT_OUT}
