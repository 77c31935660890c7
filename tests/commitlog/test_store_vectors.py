"""All 42 byte vectors of store_vectors.json, in both directions where it makes sense.

Every vector's name is taken by exactly one check; a name that no check takes fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog.delay_levels import DEFAULT_DELAY_LEVELS
from commitlog.index import index_format
from commitlog.queues import batch_queue_entry, queue_entry, queue_ext_unit
from commitlog.queues.bloom import has_bits, new_bloom_filter, set_bits
from commitlog.records import ids
from commitlog.records import timer_format as timer
from commitlog.records.hosts import Host
from commitlog.records.java import hash_map_order, string_hash
from commitlog.records.message import Message, decode_message, encode_message
from commitlog.records.message_layout import RecordKind, body_crc, encode_blank, kind_at
from commitlog.records.properties import decode_properties, encode_properties
from commitlog.recovery import checkpoint
from commitlog.segments.next_file import segment_name

FILE = Path(__file__).parent.parent / "data" / "vectors" / "store_vectors.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["vectors"]
BY_NAME = {vector["name"]: vector for vector in VECTORS}

Check = Callable[[Any, Any], None]
CHECKS: dict[str, Check] = {}


def check(*names: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, function))
        return function

    return register


def host(text: str) -> Host:
    ip, port = text.rsplit(":", 1)
    return Host(ip, int(port))


def first_message() -> Message:
    given = BY_NAME["message_v1_ipv4"]["input"]
    return Message(
        topic=given["topic"],
        body=given["body"].encode(),
        properties=dict(given["props"]),
        queue_id=given["queue_id"],
        queue_offset=given["queue_offset"],
        physical_offset=given["phys_offset"],
        born_timestamp_ms=given["born_ts"],
        store_timestamp_ms=given["store_ts"],
        born_host=Host(*given["born"]),
        store_host=Host(*given["store"]),
    )


def both_ways(message: Message, output: Any, sys_flag: int = 0) -> None:
    record = encode_message(message)
    assert record.hex() == output["hex"]
    assert len(record) == output["size"]
    decoded = decode_message(record)
    assert decoded.record_size == output["size"]
    assert decoded.sys_flag == message.sys_flag | sys_flag
    assert encode_message(decoded) == record


@check("tags_code")
def tags_code(given: Any, output: Any) -> None:
    code = queue_entry.tags_code(given)
    assert code == output["decimal"]
    assert queue_entry.pack_entry(0, 0, code)[12:].hex() == output["cq_8_bytes"]


@check("index_key_hash")
def index_key_hash(given: Any, output: Any) -> None:
    geometry = index_format.IndexGeometry()
    assert geometry.slots == 5_000_000
    assert string_hash(given) == output["string_hash"]
    key_hash = index_format.key_hash(given)
    assert key_hash == output["key_hash"]
    slot = geometry.slot_of(key_hash)
    assert slot == output["slot_of_5000000"]
    assert geometry.slot_position(slot) == output["slot_file_offset"]


@check("body_crc")
def body_crc_(given: Any, output: Any) -> None:
    assert body_crc(given.encode()) == output["stored"] == output["crc32_full"] & 0x7FFFFFFF


@check("properties")
def properties(given: Any, output: Any) -> None:
    block = encode_properties(dict(given))
    assert (block.hex(), len(block)) == (output["hex"], output["length"])
    assert list(decode_properties(block).items()) == [tuple(pair) for pair in given]


@check("message_v1_ipv4")
def message_v1_ipv4(_: Any, output: Any) -> None:
    both_ways(first_message(), output)
    assert decode_message(bytes.fromhex(output["hex"])) == first_message()


@check("message_v1_ipv6_empty_body")
def message_v1_ipv6(given: Any, output: Any) -> None:
    message = Message(
        topic=given["topic"],
        body=b"",
        queue_offset=given["queue_offset"],
        physical_offset=given["phys_offset"],
        born_timestamp_ms=first_message().born_timestamp_ms,
        store_timestamp_ms=first_message().store_timestamp_ms,
        born_host=host(given["born"]),
        store_host=host(given["store"]),
    )
    both_ways(message, output, sys_flag=0x30)


@check("message_v2_long_topic")
def message_v2(given: Any, output: Any) -> None:
    message = Message(
        topic=given["topic"],
        body=b"x",
        properties={"TAGS": "B"},
        physical_offset=given["phys_offset"],
        born_timestamp_ms=first_message().born_timestamp_ms,
        store_timestamp_ms=first_message().store_timestamp_ms,
        born_host=Host("10.0.0.1", 1),
        store_host=Host("10.0.0.2", 2),
    )
    both_ways(message, output)


@check("message_with_crc_property")
def message_with_crc(_: Any, output: Any) -> None:
    record = encode_message(first_message(), with_record_crc=True)
    assert (record.hex(), len(record)) == (output["hex"], output["size"])
    assert repr(record[-20:]) == output["tail_ascii"]
    decoded = decode_message(record, verify_record=True)
    assert encode_message(decoded, with_record_crc=True) == record


@check("message_commit")
def message_commit(_: Any, output: Any) -> None:
    message = Message(
        topic="TopicTest",
        body=b"t",
        properties={"TRAN_MSG": "true"},
        sys_flag=8,
        prepared_transaction_offset=4096,
        born_timestamp_ms=first_message().born_timestamp_ms,
        store_timestamp_ms=first_message().store_timestamp_ms,
        born_host=first_message().born_host,
        store_host=first_message().store_host,
    )
    both_ways(message, output)


@check("blank_record")
def blank_record(given: Any, output: Any) -> None:
    left = given["file_size"] - given["write_pos"]
    blank = encode_blank(left)
    assert blank.hex() == output["hex"]
    assert kind_at(blank) == (RecordKind.BLANK, left)


@check("offset_msg_id_v4", "offset_msg_id_v6")
def offset_id(given: Any, output: Any) -> None:
    ip, port, offset = given
    assert ids.encode_offset_id(Host(ip, port), offset) == output
    assert ids.decode_offset_id(output) == (Host(ip, port), offset)


@check("uniq_key_v4")
def unique_key(given: Any, output: Any) -> None:
    key = ids.UniqueKey(*(given[name] for name in ("ip", "pid", "loader", "ms", "counter")))
    assert ids.encode_unique_key(key) == output
    assert ids.decode_unique_key(output) == key


@check("cq_entry", "cq_entry_negative_hash")
def cq_entry(given: Any, output: Any) -> None:
    entry = queue_entry.QueueEntry(
        given["phys"], given["size"], queue_entry.tags_code(given["tags"])
    )
    assert queue_entry.pack_entry(*entry).hex() == output
    assert queue_entry.unpack_entry(bytes.fromhex(output)) == entry


@check("cq_entry_delay")
def cq_entry_delay(given: Any, output: Any) -> None:
    due_ms = DEFAULT_DELAY_LEVELS.due_ms(given["store_ts"], given["level"])
    assert due_ms == 1700000010123
    assert DEFAULT_DELAY_LEVELS.queue_id(given["level"]) == 2
    assert queue_entry.pack_entry(given["phys"], given["size"], due_ms).hex() == output


@check("cq_pre_blank")
def cq_pre_blank(_: Any, output: Any) -> None:
    assert queue_entry.PRE_BLANK.hex() == output
    entry = queue_entry.unpack_entry(queue_entry.PRE_BLANK)
    assert entry.is_filler
    assert entry.is_written


@check("batch_cq_entry")
def batch_cq_entry(given: Any, output: Any) -> None:
    code = queue_entry.tags_code(given["tags"])
    entry = batch_queue_entry.BatchQueueEntry(
        given["phys"], given["size"], code, given["store_ts"], given["base"], given["n"]
    )
    assert batch_queue_entry.pack_batch_entry(entry).hex() == output
    assert batch_queue_entry.unpack_batch_entry(bytes.fromhex(output)) == entry


@check("cq_ext_unit")
def cq_ext_unit(given: Any, output: Any) -> None:
    unit = queue_ext_unit.QueueExtUnit(
        queue_entry.tags_code(given["tags"]), given["store_ts"], bytes.fromhex(given["bitmap"])
    )
    data = queue_ext_unit.pack_ext_unit(unit)
    assert data.hex() == output["hex"]
    assert queue_ext_unit.unpack_ext_unit(data) == unit
    for offset in (0, 34):
        address = queue_entry.ext_address(offset)
        packed = queue_entry.pack_entry(0, 0, address)[12:]
        assert packed.hex() == output[f"address_of_offset_{offset}"]
        assert queue_entry.is_ext_address(address)
        assert queue_entry.ext_offset(address) == offset


@check("index_file_small")
def index_file_small(given: Any, output: Any) -> None:
    geometry = index_format.IndexGeometry(given["slots"], given["num"])
    header = index_format.IndexHeader()
    slots: dict[int, int] = {}
    entries = [index_format.IndexEntry(0, 0, 0, 0)]
    for key, offset, store_ms in given["puts"]:
        key_hash = index_format.key_hash(key)
        slot = geometry.slot_of(key_hash)
        old, slots[slot] = slots.get(slot, 0), header.next_ordinal
        entry, header = index_format.place(header, old, key_hash, offset, store_ms)
        entries.append(entry)
    assert index_format.pack_header(header).hex() == output["header"]
    assert index_format.unpack_header(bytes.fromhex(output["header"])) == header
    assert {str(slot): ordinal for slot, ordinal in slots.items()} == output["nonzero_slots"]
    packed = b"".join(index_format.ENTRY.pack(*entry) for entry in entries[1:])
    assert packed.hex() == output["entries_1_to_4"]
    assert geometry.file_size == output["file_size"]
    wanted = index_format.key_hash("TopicTest#BB")
    slot_value = slots[geometry.slot_of(wanted)]
    hits = index_format.walk(header, slot_value, entries.__getitem__, wanted, 0, 1 << 62)
    assert hits == output["query_BB"]


@check("index_file_default_size")
def index_file_default_size(given: Any, output: Any) -> None:
    assert index_format.IndexGeometry(given["slots"], given["num"]).file_size == output
    assert index_format.IndexGeometry().file_size == output


@check("checkpoint_first_48")
def checkpoint_first_48(given: Any, output: Any) -> None:
    value = checkpoint.Checkpoint(*given)
    data = checkpoint.encode_checkpoint(value)
    assert data[:48].hex() == output
    assert (len(data), any(data[40:])) == (4096, False)
    assert checkpoint.decode_checkpoint(data) == value


@check("bloom_default")
def bloom_default(given: Any, output: Any) -> None:
    bloom = new_bloom_filter(given["error_percent"], given["consumers"])
    assert (bloom.k, bloom.m) == (output["k"], output["m"])


@check("bloom_positions")
def bloom_positions(given: Any, output: Any) -> None:
    bloom = new_bloom_filter()
    positions = bloom.positions(*given.split("#"))
    assert list(positions) == output["positions"]
    bitmap = bloom.empty()
    set_bits(bitmap, positions)
    assert bitmap.hex() == output["bitmap"]
    assert has_bits(bitmap, positions)


@check("file_name")
def file_name(given: Any, output: Any) -> None:
    assert segment_name(given) == output


@check("op_message_body")
def op_message_body(given: Any, output: Any) -> None:
    assert timer.encode_op_body(given) == output.encode()
    assert timer.decode_op_body(output.encode()) == given


@check("timer_log_unit")
def timer_log_unit(given: Any, output: Any) -> None:
    unit = timer.TimerUnit(
        given["prev"],
        given["magic"],
        given["write_ms"],
        given["delay_ms"],
        given["phys"],
        given["size"],
        timer.topic_hash(given["real_topic"]),
    )
    assert timer.pack_timer_unit(unit).hex() == output
    assert timer.unpack_timer_unit(bytes.fromhex(output)) == unit


@check("timer_slot")
def timer_slot(given: Any, output: Any) -> None:
    slot = timer.TimerSlot(given["time_ms"], given["first"], given["last"], given["num"])
    assert timer.pack_timer_slot(slot).hex() == output
    assert timer.unpack_timer_slot(bytes.fromhex(output)) == slot


@check("java_hashmap_order_16")
def java_hashmap_order_16(given: Any, output: Any) -> None:
    assert hash_map_order(given, 16) == output


@check("java_hashmap_order_128")
def java_hashmap_order_128(given: Any, output: Any) -> None:
    assert hash_map_order(given, 128) == output


def test_there_are_42() -> None:
    assert len(BY_NAME) == len(VECTORS) == 42


@pytest.mark.parametrize("name", BY_NAME)
def test_vector(name: str) -> None:
    vector = BY_NAME[name]
    CHECKS[name.split("[")[0]](vector["input"], vector["output"])
