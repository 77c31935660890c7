"""Client batches and inner batches (docs/spec/store.md 1.8)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import MessageTooLarge, StoreUsageError
from commitlog.records.batch import (
    INNER_BATCH_FLAGS,
    BatchItem,
    decode_client_batch,
    encode_batch_records,
    encode_client_batch,
    inner_batch_of,
    inner_batch_properties,
)
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message import Message, decode_message, encode_message, topic_field
from commitlog.records.properties import encode_properties

from ..strategies import int32, property_maps, random_search

items = st.lists(
    st.builds(BatchItem, int32, st.binary(max_size=20), property_maps.map(encode_properties)),
    max_size=5,
)
V4, V6 = Host("10.0.0.1", 9), Host("::1", 9)


@random_search
@given(items)
def test_round_trip(batch: list[BatchItem]) -> None:
    data = encode_client_batch(batch)
    assert decode_client_batch(data) == decode_client_batch(bytearray(data)) == batch


@random_search
@given(items, st.sampled_from([V4, V6]))
def test_each_message_becomes_a_record_of_its_own(batch: list[BatchItem], born: Host) -> None:
    records = encode_batch_records(
        encode_client_batch(batch), topic_field("T"), 3, 1, 77, pack_host(born), pack_host(V4)
    )
    for record, item in zip(records, batch, strict=True):
        decoded = decode_message(record)
        expected = Message(
            "T",
            bytes(item.body),
            decoded.properties,
            queue_id=3,
            flag=item.flag,
            sys_flag=1 | 0x10 * (born is V6),
            born_timestamp_ms=77,
            born_host=born,
            store_host=V4,
        )
        assert decoded == expected
        assert encode_message(expected) == record
        assert encode_properties(decoded.properties) == item.properties


@random_search
@given(items, st.data())
def test_malformed_batches_raise_only_usage_errors(
    batch: list[BatchItem], data: st.DataObject
) -> None:
    body = bytearray(encode_client_batch(batch)) + data.draw(st.binary(max_size=30))
    for _ in range(data.draw(st.integers(0, 3)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(StoreUsageError):
        decoded = decode_client_batch(body)
        assert len(encode_client_batch(decoded)) == len(body)


def test_limits() -> None:
    with pytest.raises(MessageTooLarge, match="properties"):
        encode_client_batch([BatchItem(0, b"", bytes(32_768))])
    data = encode_client_batch([BatchItem(0, b"12345", b"")])
    with pytest.raises(MessageTooLarge, match="body"):
        encode_batch_records(data, topic_field("T"), 0, 0, 0, bytes(8), bytes(8), body_size_max=4)
    for count in (0, 32_768):
        with pytest.raises(StoreUsageError, match="inner batch"):
            inner_batch_properties(b"", count, 0)


def test_inner_batch() -> None:
    block = inner_batch_properties(b"UNIQ_KEY\x01u\x02INNER_NUM\x019\x02", 5, 10)
    assert block == b"UNIQ_KEY\x01u\x02INNER_NUM\x015\x02INNER_BASE\x0110\x02"
    assert inner_batch_of(block) == (10, 5)
    assert INNER_BATCH_FLAGS == 0xC0


@pytest.mark.parametrize(
    ("base", "count"),
    [("", "5"), ("1", ""), ("-1", "5"), ("x", "5"), ("1", "0"), ("1", "32768"), ("9" * 19, "1")],
)
def test_no_inner_batch(base: str, count: str) -> None:
    block = f"INNER_BASE\x01{base}\x02INNER_NUM\x01{count}\x02".encode()
    assert inner_batch_of(block) is None
