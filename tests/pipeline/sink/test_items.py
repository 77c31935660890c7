"""Items made by columns are what the client's own encoder and the broker's reader know."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.protocol.batch import BATCH_COUNT_MAX, encode_numbered, iterate
from commitlog.records.batch import decode_client_batch
from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from commitlog.records.properties import decode_properties
from pipeline.sink.items import REQUEST_BYTES_MAX, BadRow, Numbering, encode_items, requests_of

NUMBERING = Numbering("0f1e2d3c-0000-1111-2222-333344445555", 7, 3)
TEXT = st.text(st.characters(min_codepoint=32, blacklist_categories=["Cs"]), min_size=1, max_size=9)
ROWS = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.none() | TEXT,
        st.none() | TEXT,
        st.lists(
            st.tuples(TEXT.map(lambda name: "x" + name), st.just("") | TEXT),
            max_size=3,
            unique_by=lambda p: p[0],
        ),
    ),
    min_size=1,
    max_size=20,
)


def columns_of(rows: list[tuple[bytes, str | None, str | None, list[tuple[str, str]]]]) -> dict:
    values, keys, tags, headers = zip(*rows, strict=True)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    pairs = [[{"key": k, "value": v.encode()} for k, v in row] for row in headers]
    return {
        "value": pa.array(values, pa.binary()),
        "key": pa.array(keys, pa.string()),
        "tags": pa.array(tags, pa.string()),
        "headers": pa.array(pairs, kind),
    }


@settings(max_examples=25, deadline=None)
@given(ROWS, st.integers(0, 3 * BATCH_COUNT_MAX))
def test_equal_to_an_encoder_that_writes_one_by_one(rows: list, first: int) -> None:
    data = b"".join(
        b for _, b in requests_of(encode_items(columns_of(rows), NUMBERING, "q", first))
    )
    entries = []
    for place, (body, key, tag, headers) in enumerate(rows):
        tail = f"UNIQ_KEY\x01{NUMBERING.key('q', first + place)}\x02"
        tail += f"TAGS\x01{tag}\x02" if tag is not None else ""
        tail += f"KEYS\x01{key}\x02" if key is not None else ""
        tail += "".join(f"{k}\x01{v}\x02" for k, v in headers if v)
        entries.append((None, body, tail.encode(), None))
    prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % NUMBERING.producer.encode()
    assert data == encode_numbered(entries, prefix, NUMBERING.sequence(first))
    assert [item.body for item in decode_client_batch(data)] == [row[0] for row in rows]


def test_maps_become_properties() -> None:
    kind = pa.map_(pa.string(), pa.string())
    rows = [[("a", "1"), ("b", "2")], None, [], [("c", "3")]]
    whole = pa.array([[("skipped", "0")], *rows], kind)
    values = pa.array([b"v"] * 4)
    items = encode_items({"value": values, "properties": whole.slice(1)}, NUMBERING, "q", 0)
    found = [decode_properties(i.properties) for _, b in requests_of(items) for i in iterate(b)]
    own = ("__PID", "__SEQ", "UNIQ_KEY")
    assert [{k: v for k, v in p.items() if k not in own} for p in found] == [
        dict(row or []) for row in rows
    ]


def test_requests_hold_rows_in_order_and_below_their_limits() -> None:
    sizes = [10, 70_000, 100_000, 10, 200_000, 10]
    values = pa.array([bytes([n]) * size for n, size in enumerate(sizes)])
    requests = list(requests_of(encode_items({"value": values}, NUMBERING, "q", 0)))
    assert [count for count, _ in requests] == [2, 2, 1, 1]
    assert all(len(body) <= REQUEST_BYTES_MAX or count == 1 for count, body in requests)
    small = encode_items({"value": pa.array([b""] * 9000)}, NUMBERING, "q", 0)
    counts = [count for count, _ in requests_of(small)]
    assert sum(counts) == 9000
    assert max(counts) < BATCH_COUNT_MAX


def test_numbers_and_keys_of_a_batch() -> None:
    assert NUMBERING.producer == "batch/0f1e2d3c000011112222333344445555/7"
    assert len(NUMBERING.producer) <= 64
    assert NUMBERING.sequence(5) == 3 * BATCH_ROWS_MAX + 5
    key = NUMBERING.key("q", 255)
    assert len(key) == 32
    assert key.endswith("00000003000000ff")
    others = [
        Numbering(NUMBERING.query, 7, 3, "4 queues").key("q", 255),
        Numbering(NUMBERING.query, 8, 3).key("q", 255),
        NUMBERING.key("r", 255),
        NUMBERING.key("q", 254),
    ]
    assert len({key, *others}) == 5


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": [b"x" * (4 << 20)]}, "bytes of body"),
        ({"value": [b"x"], "key": ["k" * 40_000]}, "bytes of properties"),
        ({"value": [b"x"], "tags": ["a\x02b"]}, "parts properties"),
        ({"value": [b"x"], "headers": [[{"key": "UNIQ_KEY", "value": b"1"}]]}, "reserved"),
        ({"value": [b"x"], "headers": [[{"key": "a\x01", "value": b"1"}]]}, "parts properties"),
        ({"value": [b"x"], "headers": [[{"key": None, "value": b"1"}]]}, "a header has no name"),
        ({"value": [b"x"], "headers": [[None, {"key": "a", "value": b"1"}]]}, "has no name"),
    ],
)
def test_rows_that_no_topic_can_hold(columns: dict, said: str) -> None:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    with pytest.raises(BadRow, match=said):
        encode_items(arrays, NUMBERING, "q", 0)


def test_a_batch_has_a_last_row() -> None:
    with pytest.raises(BadRow, match="more than"):
        encode_items({"value": pa.array([b"x"])}, NUMBERING, "q", BATCH_ROWS_MAX - 1)
