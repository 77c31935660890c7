"""Every list of a request, and every sum over nested lists, has a limit that is checked before the
work is done."""

from __future__ import annotations

import base64

import pytest

from cluster.errors import InvalidRequest, RemoteProtocolError
from cluster.protocol import heartbeat, json_body, pop_headers
from cluster.protocol.heartbeat import decode_heartbeat
from cluster.protocol.pop_headers import read_acks
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
