"""Message ⇄ record: round trips, limits, and that damage is only ever StoreDamaged."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import MessageTooLarge, StoreDamaged, StoreUsageError
from commitlog.records.hosts import Host
from commitlog.records.message import Message, decode_message, encode_message
from commitlog.records.message_layout import BODY_SIZE_MAX, MAGIC_V1, MAGIC_V2

from ..strategies import messages, random_search

PLAIN = Message("T", b"body", {"TAGS": "a", "KEYS": "k1  k2 ", "UNIQ_KEY": "U"})


@random_search
@given(messages(), st.binary(max_size=9), st.binary(max_size=9))
def test_round_trip_anywhere_in_a_buffer(message: Message, before: bytes, after: bytes) -> None:
    record = encode_message(message)
    for data in (before + record + after, bytearray(before + record + after)):
        decoded = decode_message(data, len(before))
        assert decoded == message
        assert decoded.record_size == len(record)
    assert decode_message(memoryview(record)).magic == (
        MAGIC_V1 if len(message.topic) <= 127 else MAGIC_V2
    )


@random_search
@given(messages(), st.data())
def test_damaged_bytes_raise_only_store_damaged(message: Message, data: st.DataObject) -> None:
    record = bytearray(encode_message(message))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    for damaged in (bytes(record), bytes(record[:cut])):
        with contextlib.suppress(StoreDamaged):
            assert len(decode_message(damaged).topic) <= len(damaged)


@random_search
@given(st.binary(max_size=200))
def test_rubbish_raises_only_store_damaged(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        decode_message(data)


@random_search
@given(messages(), st.data())
def test_no_changed_bit_of_a_sealed_record_passes(message: Message, data: st.DataObject) -> None:
    """But for the separator before the checksum: without it there is no such property (1.4)."""
    record = bytearray(encode_message(message, with_record_crc=True))
    bit = data.draw(st.integers(0, (len(record) - 21) * 8 - 1))
    assert decode_message(record, verify_record=True).body == message.body
    record[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreDamaged):
        decode_message(record, verify_record=True)


def test_a_changed_body_fails_its_crc_unless_the_check_is_off() -> None:
    record = bytearray(encode_message(PLAIN))
    at = record.index(b"body")
    record[at] ^= 1
    with pytest.raises(StoreDamaged, match="CRC"):
        decode_message(record)
    assert decode_message(record, verify_body=False).body == b"cody"


def test_the_record_checksum_replaces_the_body_check() -> None:
    record = bytearray(encode_message(PLAIN, with_record_crc=True))
    record[20] ^= 1  # queue offset: not covered by the body's CRC
    assert decode_message(record).queue_offset != 0
    with pytest.raises(StoreDamaged, match="__CRC32#"):
        decode_message(record, verify_record=True)


def test_an_incoming_record_checksum_is_made_anew_or_dropped() -> None:
    stale = replace(PLAIN, properties={"__CRC32#": "0000000000", **PLAIN.properties})
    assert encode_message(stale) == encode_message(PLAIN)
    sealed = encode_message(stale, with_record_crc=True)
    assert sealed == encode_message(PLAIN, with_record_crc=True)
    assert decode_message(sealed, verify_record=True).properties["__CRC32#"] != "0000000000"


def test_a_checksum_property_that_is_not_last_is_damage() -> None:
    moved = replace(PLAIN, properties={"x": "__CRC32#"})
    assert decode_message(encode_message(moved), verify_record=True) == moved


def test_ip_bits_follow_the_hosts_and_not_the_flags_given() -> None:
    stale = replace(PLAIN, sys_flag=0x30)
    assert decode_message(encode_message(stale)).sys_flag == 0
    v6 = replace(PLAIN, store_host=Host("::1", 1))
    assert decode_message(encode_message(v6)).sys_flag == 0x20
    mapped = replace(PLAIN, born_host=Host("::ffff:10.0.0.1", 1))
    assert decode_message(encode_message(mapped)).born_host == Host("10.0.0.1", 1)


def test_views() -> None:
    assert PLAIN.keys == ["k1", "k2"]
    assert (PLAIN.tags, PLAIN.unique_key) == ("a", "U")
    assert Message("T", b"").keys == []
    assert Message("T", b"", sys_flag=0x708).transaction_type == 8
    assert Message("T", b"Hello world").body_crc == 198614610


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (Message("T", bytes(BODY_SIZE_MAX + 1)), "body"),
        (Message("T", b"", {"k": "v" * 32_765}), "properties"),
        (Message("T" * 256, b""), "topic"),
    ],
)
def test_limits(message: Message, part: str) -> None:
    with pytest.raises(MessageTooLarge) as caught:
        encode_message(message)
    assert caught.value.part == part
    assert caught.value.size > caught.value.size_max


def test_the_limits_themselves_pass() -> None:
    for message in (
        Message("T", bytes(BODY_SIZE_MAX)),
        Message("T", b"", {"k": "v" * 32_764}),
        Message("T" * 255, b""),
    ):
        assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "changes",
    [
        {"queue_id": 1 << 31},
        {"queue_offset": 1 << 63},
        {"born_host": Host("nowhere", 1)},
        {"born_host": Host("1.2.3.4", 65_536)},
        {"properties": {"a": ""}},
    ],
)
def test_impossible_values_are_the_callers_mistake(changes: dict[str, object]) -> None:
    with pytest.raises(StoreUsageError):
        encode_message(replace(PLAIN, **changes))  # type: ignore[arg-type]


def test_the_last_pair_may_lack_its_end() -> None:
    """4.9 cuts the last separator off (docs/spec/store.md 1.3)."""
    record = encode_message(PLAIN)
    cut = bytearray(record[:-1])
    cut[:4] = (len(record) - 1).to_bytes(4, "big")
    at = len(record) - len(b"TAGS\1a\2KEYS\1k1  k2 \2UNIQ_KEY\1U\2") - 2
    size = int.from_bytes(record[at : at + 2], "big")
    cut[at : at + 2] = (size - 1).to_bytes(2, "big")
    assert decode_message(cut) == PLAIN
