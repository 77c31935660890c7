"""Bodies of the revive log, byte for byte: RocketMQ reads them in an exported store."""

from __future__ import annotations

import pytest

from cluster.core.pop.records import (
    Acked,
    OrderAcked,
    OrderHidden,
    OrderTaken,
    Place,
    PopRecord,
    Taken,
    encode_record,
)

QUEUE = Place("G", "T", 0)


@pytest.mark.parametrize(
    ("record", "tags", "body"),
    [
        (  # RocketMQ's bit map ("bm"): no message of a new checkpoint is acknowledged
            Taken(QUEUE, 4, 1000, 60_000, (4, 6, 7), 3, 8, "b"),
            b"ck",
            b'{"bm":0,"bn":"b","c":"G","d":[0,2,3],"fr":3,"it":60000,"n":3,"nx":8,"pt":1000,'
            b'"q":0,"so":4,"t":"T"}',
        ),
        (
            Acked(QUEUE, 77, 4, 1000, (4, 7), "b"),
            b"bAck",
            b'{"aol":[4,7],"ap":77,"bn":"b","c":"G","pt":1000,"q":0,"so":4,"t":"T"}',
        ),
        (
            OrderTaken(QUEUE, 1000, 60_000, (4, 5), "attempt", -1, 4),
            b"oPop",
            b'{"at":"attempt","c":"G","fr":-1,"it":60000,"nx":4,"o":[4,5],"pt":1000,"q":0,"t":"T"}',
        ),
        (OrderAcked(QUEUE, 1000, 4), b"oAck", b'{"ao":4,"c":"G","pt":1000,"q":0,"t":"T"}'),
        (
            OrderHidden(QUEUE, 1000, 5, 9000),
            b"oVis",
            b'{"ao":5,"c":"G","pt":1000,"q":0,"t":"T","vt":9000}',
        ),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) and len(value) < 5 else "",
)
def test_record_has_the_bytes_of_its_format(record: PopRecord, tags: bytes, body: bytes) -> None:
    assert encode_record(record) == (tags, body)
