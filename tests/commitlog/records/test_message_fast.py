"""The hot path does what the plain codec does, byte for byte and field for field."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import MessageTooLarge, StoreDamaged, StoreUsageError
from commitlog.records import message_fast
from commitlog.records.hosts import pack_host
from commitlog.records.java import string_hash
from commitlog.records.message import Message, decode_message, encode_message
from commitlog.records.message_fast import encode_record, scan_record, tags_code_of, topic_field
from commitlog.records.message_layout import patch_record, store_timestamp_at
from commitlog.records.properties import decode_properties, encode_properties, find_property

from ..strategies import int64, messages, odd_blocks, random_search


def pieces(message: Message, block: bytes) -> bytearray:
    return encode_record(
        topic_field(message.topic),
        block,
        message.body,
        message.queue_id,
        message.flag,
        message.sys_flag,
        message.born_timestamp_ms,
        pack_host(message.born_host),
        pack_host(message.store_host),
        message.reconsume_times,
        message.prepared_transaction_offset,
        message.queue_offset,
        message.physical_offset,
        message.store_timestamp_ms,
    )


@random_search
@given(messages(), int64, int64, int64)
def test_patching_is_encoding_with_those_values(
    message: Message, queue_offset: int, physical_offset: int, store_ms: int
) -> None:
    record = pieces(message, encode_properties(message.properties))
    assert record == encode_message(message)
    patch_record(record, queue_offset, physical_offset, store_ms)
    patched = replace(
        message,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_timestamp_ms=store_ms,
    )
    assert record == encode_message(patched)
    at = store_timestamp_at(message.sys_flag)
    assert record[at : at + 8] == struct.pack(">q", store_ms)


@random_search
@given(messages(), st.binary(max_size=60) | odd_blocks, st.integers(0, 5))
def test_scan_sees_what_the_decoder_sees(message: Message, block: bytes, gap: int) -> None:
    record = pieces(message, block)
    data = bytes(gap) + record + bytes(gap)
    scanned = scan_record(data, gap)
    assert scanned == scan_record(memoryview(data), gap) == scan_record(bytearray(data), gap)
    assert scanned.size == len(record)
    assert scanned.topic.decode() == message.topic
    assert scanned.queue_id == message.queue_id
    assert scanned.queue_offset == message.queue_offset
    assert scanned.physical_offset == message.physical_offset
    assert scanned.sys_flag == message.sys_flag
    assert scanned.store_timestamp_ms == message.store_timestamp_ms
    assert scanned.properties == block
    wanted = {
        "TAGS": find_property(block, b"TAGS"),
        "KEYS": scanned.keys,
        "UNIQ_KEY": scanned.unique_key,
        "__PID": scanned.producer_id,
    }
    decoded = decode_properties(block)
    if "__PID" in decoded:
        wanted["__SEQ"] = scanned.producer_sequence
    else:
        assert scanned.producer_sequence is None
    for name, value in wanted.items():
        assert (None if value is None else str(value, "utf-8", "replace")) == decoded.get(name)
    assert scanned.tags_code == string_hash(decoded.get("TAGS", ""))


@random_search
@given(messages(), st.data())
def test_damage_is_store_damaged_and_never_more(message: Message, data: st.DataObject) -> None:
    record = bytearray(encode_message(message))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    for damaged in (bytes(record), bytes(record[:cut])):
        try:
            scanned = scan_record(damaged)
        except StoreDamaged:
            with pytest.raises(StoreDamaged):
                decode_message(damaged, verify_body=False)
        else:
            again = decode_message(damaged, verify_body=False)
            assert (scanned.size, scanned.queue_offset) == (again.record_size, again.queue_offset)


@random_search
@given(st.binary(max_size=200))
def test_rubbish_is_store_damaged(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        scan_record(data)


def test_a_block_over_its_limit_is_refused() -> None:
    with pytest.raises(MessageTooLarge, match="properties"):
        pieces(Message("T", b""), bytes(32_768))


@pytest.mark.parametrize("changes", [{"queue_id": 1 << 31}, {"born_timestamp_ms": -(1 << 63) - 1}])
def test_a_number_over_its_field_is_the_callers_mistake(changes: dict[str, int]) -> None:
    with pytest.raises(StoreUsageError, match="outside"):
        pieces(replace(Message("T", b""), **changes), b"")  # type: ignore[arg-type]


def test_codes_of_many_tags_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_fast, "_TAGS_CODES_MAX", 10)
    monkeypatch.setattr(message_fast, "_tags_codes", {})
    for number in range(25):
        assert tags_code_of(b"tag%d" % number) == string_hash(f"tag{number}")
    assert len(message_fast._tags_codes) <= 10
