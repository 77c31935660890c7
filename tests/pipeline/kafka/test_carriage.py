"""Rows of a job for Kafka → columns of messages → the same rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

import pyarrow as pa

from commitlog.errors import StoreDamaged
from commitlog.records.properties import decode_properties
from pipeline.frames.batch import HEADERS
from pipeline.frames.properties import Properties
from pipeline.kafka.carriage import HEADERS_MARK, KEY, MARKS, carried, given_back, may_be_marked
from pipeline.sink.items import encode_items
from pipeline.sink.numbering import Numbering

Row = dict[str, Any]
_BYTES = [b"", b"\x00", b"\x01", b"\x02", b"\xff\xfe", b"plain", "täg".encode(), b"a b", b"="]
_NAMES = ["a", "b", "KEYS", "TAGS", "UNIQ_KEY", "__x", "__KAFKA_NULL", "", "t\x01", "ü"]


def there_and_back(rows: list[Row]) -> list[Row]:
    """Through the sink's encoder and the source's decoder, without a broker between them."""
    columns = {
        "value": pa.array([row["value"] for row in rows], pa.binary()),
        "key": pa.array([row["key"] for row in rows], pa.binary()),
        "headers": pa.array([row["headers"] for row in rows], HEADERS),
    }
    items = encode_items(carried(columns), Numbering("q", 0, 0), "b/0", 0)
    bodies, blocks = [], []
    for item in items.to_pylist():
        size = int.from_bytes(item[16:20], "big")
        bodies.append(item[20 : 20 + size])
        blocks.append(item[22 + size :])
    properties = Properties(pa.array(blocks, pa.binary()))
    found = given_back(
        {
            "value": pa.array(bodies, pa.binary()),
            "key": properties.column("KEYS").cast(pa.binary()),
            "headers": properties.list_column(HEADERS),
        },
        properties.map_column(),
    )
    return [
        {name: column[place].as_py() for name, column in found.items()}
        for place in range(len(rows))
    ]


def row(value: bytes | None = b"v", key: bytes | None = None, *headers: tuple[str, Any]) -> Row:
    pairs = [{"key": name, "value": body} for name, body in headers]
    return {"value": value, "key": key, "headers": pairs or None}


@pytest.mark.parametrize(
    "given",
    [
        row(),
        row(None),
        row(b""),
        row(b"v", b""),
        row(b"v", b"\xff\x00\x01"),
        row(b"v", b"base64"),
        row(None, b"k", ("a", b"1"), ("b", b"2")),
        row(b"v", None, ("a", b"1"), ("a", b"2")),
        row(b"v", None, ("a", None), ("b", b"")),
        row(b"v", None, ("KEYS", b"1")),
        row(b"v", None, ("__x", b"1")),
        row(b"v", b"k", ("", b"\x01\x02\xff")),
    ],
)
def test_a_row_comes_back_as_it_was(given: Row) -> None:
    assert there_and_back([given]) == [given]
    assert there_and_back([row(), given, row(b"w", b"k")]) == [row(), given, row(b"w", b"k")]


def test_random_rows_come_back_as_they_were() -> None:
    """20,000 rows in batches of up to 50, so that marked and plain ones are mixed."""
    random = Random(26)
    for _ in range(800):
        rows = [
            row(
                random.choice([None, *_BYTES]),
                random.choice([None, *_BYTES, random.randbytes(random.randrange(9))]),
                *(
                    (random.choice(_NAMES), random.choice([None, *_BYTES]))
                    for _ in range(random.choice([0, 0, 1, 2, 3]))
                ),
            )
            for _ in range(random.randrange(1, 50))
        ]
        assert there_and_back(rows) == rows


def test_rows_that_fit_carry_no_mark() -> None:
    columns = {
        "value": pa.array([b"v", b"w"], pa.binary()),
        "key": pa.array([b"k", None], pa.binary()),
        "headers": pa.array([[{"key": "a", "value": b"1"}], None], HEADERS),
    }
    found = carried(columns)
    assert MARKS not in found
    items = encode_items(found, Numbering("q", 0, 0), "b/0", 0).to_pylist()
    assert not may_be_marked(memoryview(b"".join(items)))
    assert decode_properties(items[0][23:])["a"] == "1", "any client reads it"


def test_a_key_of_bytes_can_be_found_by_its_base64() -> None:
    found = carried(
        {"value": pa.array([b""], pa.binary()), "key": pa.array([b"\xff\x00"], pa.binary())}
    )
    assert found["key"].to_pylist() == [b"/wA="]
    assert found[MARKS].to_pylist() == [b"__KAFKA_KEY\x01base64\x02"]


@pytest.mark.parametrize(
    ("name", "text"), [(HEADERS_MARK, "AAE="), (HEADERS_MARK, "?"), (KEY, "base64")]
)
def test_a_mark_that_no_sink_wrote_is_damage(name: str, text: str) -> None:
    block = f"KEYS\x01no base64!\x02{name}\x01{text}\x02".encode()
    properties = Properties(pa.array([block], pa.binary()))
    columns = {"key": properties.column("KEYS").cast(pa.binary())}
    columns["headers"] = properties.list_column(HEADERS)
    with pytest.raises(StoreDamaged, match=f"{name} cannot be read"):
        given_back(columns, properties.map_column())
