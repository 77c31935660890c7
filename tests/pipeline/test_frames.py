"""Columns made without a loop hold what the record decoder reads, one message after the other."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

import struct

import numpy as np
import pyarrow as pa

from commitlog.records.message import decode_message
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import HEADER, HEADER_SIZE
from commitlog.store.reader import StoreReader
from pipeline.frames.batch import COLUMNS, cut, record_batch, schema_of
from pipeline.frames.checksums import crc32_each
from pipeline.frames.head import Heads
from pipeline.frames.locate import Found, from_index, search
from pipeline.frames.properties import Properties

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
STORES = [
    GOLDEN / "java-store" / "normal",
    GOLDEN / "java-store" / "normal_running1",
    GOLDEN / "dledger" / "dledger-broker" / "store",
]
V4 = b"\x7f\0\0\x01\0\0\x27\x10"
V6 = bytes(15) + b"\x01\0\0\x27\x10"


def _log(random: Random, count: int, *, entries: bool, odd: bool) -> tuple[bytes, bytes]:
    """(log bytes, index slots) of random messages; `odd` mixes in everything unusual."""
    data, slots = bytearray(), bytearray()
    for n in range(count):
        topic = "t" * random.randrange(128, 200) if odd and random.random() < 0.1 else f"T{n % 3}"
        names = {"KEYS": f"k{n} x", "TAGS": f"tag{n % 4}", "UNIQ_KEY": f"{n:032X}"}
        pairs = [f"{k}\x01{v}\x02" for k, v in names.items() if random.random() < 0.7]
        block = "".join(pairs).encode()
        if odd and random.random() < 0.1:
            block = block[:-1] if random.random() < 0.5 else block + b"lonely\x02"
        body = random.randbytes(random.randrange(0, 300))
        if random.random() < 0.2:
            body += b"\xda\xa3\x20\xa7" + random.randbytes(20)  # a magic within a body
        born, store = (random.choice([V4, V6]) if odd else V4 for _ in range(2))
        lead = HEADER_SIZE if entries else 0
        record = encode_record(
            topic_field(topic),
            block,
            body,
            n % 5,
            0,
            random.choice([0, 1, 8]) if odd else 0,
            1_700_000_000_000 + n,
            born,
            store,
            reconsume_times=n % 2,
            queue_offset=n,
            physical_offset=len(data) + lead,
            store_timestamp_ms=1_700_000_000_500 + n,
        )
        if entries:
            slots += struct.pack(">iqiqq", 1, len(data), lead + len(record), n, 7)
            data += HEADER.pack(1, lead + len(record), n, 7, len(data), 0, 0, 0, len(record))
        data += record
    return bytes(data), bytes(slots)


def _check(data: bytes, found: Found) -> None:
    schema = schema_of(list(COLUMNS))
    rows = [
        row
        for part in cut(found, rows_max=50)
        for row in record_batch(memoryview(data), part, schema).to_pylist()
    ]
    assert len(rows) == len(found)
    for at, row in zip(found.at.tolist(), rows, strict=True):
        message = decode_message(data, at)
        assert row["value"] == bytes(message.body)
        assert row["topic"] == message.topic
        assert (row["queue"], row["offset"]) == (message.queue_id, message.queue_offset)
        assert row["timestamp"].timestamp() * 1000 == pytest.approx(message.store_timestamp_ms)
        assert row["born_timestamp"].timestamp() * 1000 == pytest.approx(message.born_timestamp_ms)
        assert dict(row["properties"]) == dict(message.properties)
        assert row["tags"] == message.properties.get("TAGS")
        assert row["keys"] == message.properties.get("KEYS")
        assert row["physical_offset"] == message.physical_offset
        assert row["sys_flag"] == message.sys_flag
        assert row["reconsume_times"] == message.reconsume_times


@pytest.mark.parametrize("entries", [True, False])
@pytest.mark.parametrize("odd", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_columns_hold_what_the_decoder_reads(seed: int, odd: bool, entries: bool) -> None:
    data, slots = _log(Random(f"{seed}{odd}{entries}"), 400, entries=entries, odd=odd)
    found = search(memoryview(data), entries=entries)
    assert found.end == len(data)
    assert len(found) == 400
    _check(data, found)
    if entries:
        indexed = from_index(slots, 0)
        assert np.array_equal(indexed.at, found.at)
        assert np.array_equal(indexed.size, found.size)
        assert indexed.log_index is not None
        assert found.log_index is not None
        assert np.array_equal(indexed.log_index, found.log_index)


@pytest.mark.parametrize("store", STORES, ids=lambda path: path.parent.name + path.name)
def test_golden_stores_as_columns(store: Path) -> None:
    with StoreReader(store) as reader:
        items = list(reader.items())
        for part in reader.parts:
            for run in part.runs:
                names = sorted(part.folder.iterdir())
                data = b"".join(p.read_bytes() for p in names if p.name.isdigit())
                seen = 0
                at = 0
                size = run.file_size
                while at < len(data):  # each file has a blank at its end
                    file = data[at : at + size]
                    found = search(memoryview(file), entries=part.entries)
                    _check(file, found)
                    seen += len(found)
                    at += size
                assert seen == len(items)


def test_a_cut_record_ends_the_chain() -> None:
    data, _ = _log(Random(1), 20, entries=True, odd=False)
    for cut_at in (len(data) - 1, len(data) - 60, len(data) // 2):
        found = search(memoryview(data[:cut_at]), entries=True)
        whole = search(memoryview(data), entries=True)
        ends = whole.at + whole.size
        assert len(found) == int((ends <= cut_at).sum())


def test_a_size_that_leads_nowhere_ends_the_chain() -> None:
    data, _ = _log(Random(2), 20, entries=False, odd=False)
    whole = search(memoryview(data), entries=False)
    broken = bytearray(data)
    at = int(whole.at[9])
    broken[at : at + 4] = (5_000_000).to_bytes(4, "big")
    assert len(search(memoryview(bytes(broken)), entries=False)) == 9


@pytest.mark.parametrize(
    ("offset", "what"), [(84, "body"), (88, "topic|sizes|body")], ids=["body size", "topic size"]
)
def test_sizes_that_do_not_add_up_are_refused(offset: int, what: str) -> None:
    record = bytearray(encode_record(topic_field("T"), b"A\x01B\x02", b"", 0, 0, 0, 0, V4, V4))
    record[offset] = 0x7F
    found = search(memoryview(bytes(record)), entries=False)
    with pytest.raises(ValueError, match=what):
        record_batch(memoryview(bytes(record)), found, schema_of(["value"]))


def test_unknown_and_repeated_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="no column 'bodie'"):
        schema_of(["bodie"])
    with pytest.raises(ValueError, match="twice"):
        schema_of(["topic", "topic"])


def test_slots_that_are_no_entries_are_refused() -> None:
    _, slots = _log(Random(3), 3, entries=True, odd=False)
    with pytest.raises(ValueError, match="slot 1"):
        from_index(slots[:32] + bytes(32) + slots[64:], 0)


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        (["A\x011\x02B\x012\x02", "A\x013\x02B\x014\x02"], ["1", "3"]),
        (["A\x011\x02A\x012\x02", "A\x013\x02A\x014\x02"], ["2", "4"]),
        (["A\x011\x02B\x012\x02", "B\x013\x02A\x014\x02"], ["1", "4"]),
        (["AB\x011\x02C\x012\x02", "A\x013\x02BC\x014\x02"], [None, "3"]),
        (["A\x011\x02B\x012\x02", "A\x013\x02A\x014\x02"], ["1", "4"]),
        (["A\x011\x02B\x012\x02", ""], ["1", None]),
        (["A\x011\x02B\x012\x02", "A\x013\x02", "A\x014\x02B\x015\x02C\x016\x02"], ["1", "3", "4"]),
        (["B\x011\x02", "B\x012\x02"], [None, None]),
        (["", ""], [None, None]),
    ],
)
def test_one_property_of_messages_that_have_the_same_names_or_not(
    blocks: list[str], wanted: list[str | None]
) -> None:
    for first in (0, 1):  # also of a slice, whose bytes do not begin at 0
        some = pa.array([b"x"] * first + [block.encode() for block in blocks], pa.binary())
        assert Properties(some.slice(first)).column("A").to_pylist() == wanted


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        ([b"A\x011\x02B\x01\x00\x02", b""], [[("A", "1"), ("B", "\0")], []]),
        ([b"A\x011\x02B\x012\x02C\x013\x02", b"A\x014\x02"], [["A1", "B2", "C3"], ["A4"]]),
        ([b"A\x01\xc3\xa9\x02", b"\xff\x01\xc3\x02"], [["A\u00e9"], ["\ufffd\ufffd"]]),
        ([b"\xc3\x01\xa9\x02"], [["\ufffd\ufffd"]]),  # the two bytes are text side by side alone
        ([b"A\x01\x02"], [[("A", "")]]),
        ([b"A\x011\x02", b"A\x012"], [["A1"], ["A2"]]),  # one by one: the last 02 is missing
        ([b"A\x011\x02", b"B\x02\x01\x02"], [["A1"], []]),
    ],
)
def test_all_properties_of_messages(blocks: list[bytes], wanted: list[list[Any]]) -> None:
    for first in (0, 1):
        some = pa.array([b"A\x01x\x02"] * first + blocks, pa.binary())
        found = Properties(some.slice(first)).map_column().to_pylist()
        assert found == [[(pair[0], pair[1]) for pair in pairs] for pairs in wanted]


def test_a_head_that_the_buffer_does_not_hold_is_damage_and_none_is_none() -> None:
    data, _ = _log(Random(3), 2, entries=False, odd=False)
    found = search(memoryview(data), entries=False)
    with pytest.raises(ValueError, match="no whole head"):
        Heads(memoryview(data)[: int(found.at[1]) + 40], found.at, found.size)
    assert len(Heads(memoryview(b""), found.at[:0], found.size[:0]).queue_offset) == 0


@pytest.mark.parametrize("kinds", [1, 7, 400])
def test_checksums_of_stretches_of_few_sizes_and_of_many(kinds: int) -> None:
    random = Random(kinds)
    data = random.randbytes(200_000)
    begin = np.array([random.randrange(0, 190_000) for _ in range(1200)], dtype=np.int64)
    end = begin + np.array([random.randrange(kinds) for _ in range(1200)], dtype=np.int64)
    wanted = [crc32(data[first:last]) for first, last in zip(begin, end, strict=True)]
    assert crc32_each(memoryview(data), begin, end).tolist() == wanted
    assert crc32_each(memoryview(data), begin[:0], end[:0]).tolist() == []
