"""Every list of a request, and every sum over nested lists, has a limit that is checked before the
work is done."""

from __future__ import annotations

import base64
import struct

import pytest

from cluster.errors import InvalidRequest, RemoteProtocolError
from cluster.protocol import heartbeat, json_body, json_header, pop_headers
from cluster.protocol.frames import KIND_BINARY, KIND_JSON, Frame, decode_frame, encode_frame
from cluster.protocol.heartbeat import decode_heartbeat
from cluster.protocol.json_header import FIELDS_COUNT_MAX
from cluster.protocol.pop_headers import read_acks
from cluster.protocol.text_body import lines_of
from commitlog.errors import StoreUsageError
from commitlog.records.batch import (
    BATCH_COUNT_MAX,
    BatchItem,
    decode_client_batch,
    encode_client_batch,
)


@pytest.mark.parametrize(
    "body",
    [
        json_body.dump([0] * 30_000),
        json_body.dump({"a": [[] for _ in range(30_000)]}),
        json_body.dump({"a": [{"b": [1, 2, 3]} for _ in range(10_000)]}),
        b"[" * 30_000,
    ],
)
def test_body_with_too_many_values_is_refused_before_it_is_read(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body.orjson, "loads", lambda _: pytest.fail("it was read"))
    with pytest.raises(RemoteProtocolError, match="the limit is 20000; split it"):
        json_body.load(body, "a test")


def test_body_at_the_limit_is_read() -> None:
    values = [0] * json_body.ITEMS_MAX
    assert json_body.load(json_body.dump(values), "a test") == values


def test_answer_of_a_server_may_have_more_values() -> None:
    values = ["c"] * 30_000
    body = heartbeat.encode_consumer_list(values)
    assert heartbeat.decode_consumer_list(body) == values
    assert json_body.read_answer(body, "a test") == {"consumerIdList": values}


def beat(**sets: object) -> bytes:
    return json_body.dump({"clientID": "c", **sets})


def consumer(*subscriptions: dict[str, object]) -> dict[str, object]:
    return {"groupName": "g", "subscriptionDataSet": list(subscriptions)}


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (beat(producerDataSet=[{"groupName": "g"}] * 1_001), "1001 groups"),
        (beat(consumerDataSet=[consumer()] * 1_001), "1001 groups"),
        (beat(consumerDataSet=[consumer(*[{"topic": "t"}] * 501)] * 2), "1002 subscriptions"),
        (
            beat(consumerDataSet=[consumer({"topic": "t", "subString": "a||" * 2_001})] * 2),
            "4002 tags",
        ),
    ],
)
def test_heartbeat_with_too_long_a_list_is_refused(body: bytes, what: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"names {what}, the limit is"):
        decode_heartbeat(body)


def test_heartbeat_of_a_thousand_subscriptions_is_read() -> None:
    rows = [{"topic": f"t{number}", "subString": "a || b"} for number in range(1_000)]
    found = decode_heartbeat(beat(consumerDataSet=[consumer(*rows)]))
    assert len(found.consumers[0].subscriptions) == 1_000


def ack(bits: bytes) -> dict[str, object]:
    return {
        "c": "g", "t": "t", "r": "0", "so": 7, "q": 0, "rq": 0, "pt": 1, "it": 1,
        "b": base64.b64encode(bits).decode(),
    }  # fmt: skip


def test_rows_of_a_batch_ack_are_bounded_one_by_one_and_together() -> None:
    with pytest.raises(InvalidRequest, match="1001 rows in one batch ack"):
        read_acks(json_body.dump({"acks": [ack(b"\1")] * 1_001}))
    full = bytes([255]) * (pop_headers.BITS_MAX // 8)
    assert len(read_acks(json_body.dump({"acks": [ack(full)] * 3}))) == 3
    with pytest.raises(InvalidRequest, match="more than 32000 messages; split it"):
        read_acks(json_body.dump({"acks": [ack(full)] * 4}))


def test_bits_of_a_row_are_the_offsets_from_its_start() -> None:
    (row,) = read_acks(json_body.dump({"acks": [ack(bytes([0b101, 0, 0b1000_0000]))]}))
    assert row.offsets == (7, 9, 30)


def test_batch_of_too_many_messages_is_refused_while_it_is_read() -> None:
    items = [BatchItem(0, b"", b"")] * BATCH_COUNT_MAX
    assert len(decode_client_batch(encode_client_batch(items))) == BATCH_COUNT_MAX
    with pytest.raises(StoreUsageError, match="more than 4096 messages"):
        decode_client_batch(encode_client_batch([*items, items[0]]))


@pytest.mark.parametrize("kind", [KIND_JSON, KIND_BINARY])
def test_header_with_too_many_fields_is_refused(kind: int) -> None:
    most = {f"k{number}": "v" for number in range(FIELDS_COUNT_MAX)}
    assert decode_frame(encode_frame(Frame(30, 1, most, kind=kind))).ext == most
    data = encode_frame(Frame(30, 1, {**most, "one": "more"}, kind=kind))
    with pytest.raises(RemoteProtocolError, match="1001 fields came and the limit is 1000"):
        decode_frame(data)


def test_binary_header_that_says_one_field_again_and_again_is_refused() -> None:
    header = encode_frame(Frame(30, 1, {"k": "v"}, kind=KIND_BINARY))[8:]
    fixed, block = header[:-12], header[-8:] * 1_001
    header = fixed + struct.pack(">i", len(block)) + block
    with pytest.raises(RemoteProtocolError, match="1001 fields"):
        decode_frame(struct.pack(">iI", 4 + len(header), 1 << 24 | len(header)) + header)


@pytest.mark.parametrize("value", [b'{"a":' + b"[" * 60_000, b"{" + b'"k":1,' * 60_000])
def test_json_header_with_too_many_values_is_refused_before_it_is_read(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_header.orjson, "loads", lambda _: pytest.fail("it was read"))
    with pytest.raises(RemoteProtocolError, match="the limit is 1000"):
        json_header.decode(b'{"code":30,"opaque":1,"extFields":' + value, b"")


def test_properties_of_nothing_but_commas_and_brackets_are_read() -> None:
    frame = Frame(310, 1, {"i": ",{" * (32_767 // 2)})
    assert decode_frame(encode_frame(frame)).ext == frame.ext


@pytest.mark.parametrize(
    "body", [b'{"a":"' + b"x" * 3_000_000 + b'"}', b"{" + b"1" * 3_000_000, b" " * 3_000_000]
)
def test_long_body_with_few_values_is_refused_before_it_is_read(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body.orjson, "loads", lambda _: pytest.fail("it was read"))
    with pytest.raises(RemoteProtocolError, match="bytes, the limit is 2000000; split it"):
        json_body.load(body, "a test")


@pytest.mark.parametrize("body", [b"k=v\n" * 20_001, b"k=" + b"v" * 2_000_000, b"\xff"])
def test_settings_that_nobody_has_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"limit is|no UTF-8"):
        lines_of(body)


def test_settings_without_blanks_and_empty_lines() -> None:
    assert lines_of(b" a=1 \r\n\n#b\n") == ["a=1", "#b"]
