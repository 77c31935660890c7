"""Sends that are only passed on: recognised by the ends of their headers, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.errors import InvalidRequest
from cluster.protocol.frames import KIND_JSON, PREFIX_SIZE, Frame, decode_frame, encode_frame, join
from cluster.protocol.raw_sends import RawSend, RelayDecoder, stored_opaque
from cluster.protocol.send import SendReader, SendRequest
from cluster.protocol.send_own import RequestDecoder
from cluster.protocol.send_response import SendResponder

EXT = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000123",
    "h": "0", "i": 'UNIQ_KEY\x01K\x02X\x01},"flag":1,"opaque":9\x02', "j": "0", "k": "false",
    "m": "false", "n": "~1@broker-a",
}  # fmt: skip


def java(**changed: Any) -> bytes:
    """A frame as a stock Java client writes it."""
    header = {
        "code": 310, "extFields": EXT, "flag": 0, "language": "JAVA", "opaque": 7,
        "serializeTypeCurrentRPC": "JSON", "version": 433, **changed,
    }  # fmt: skip
    return join(json.dumps(header, separators=(",", ":")).encode(), b"body", KIND_JSON)


def only(data: bytes) -> Any:
    (item,) = RelayDecoder().feed(data)
    return item


@pytest.mark.parametrize("code", [310, 320])
def test_a_send_of_a_java_client_is_not_read(code: int) -> None:
    data = java(code=code)
    raw = only(data)
    assert raw == RawSend(7, code, 0, 433, data)
    assert raw.read() == decode_frame(data)
    assert not raw.is_oneway
    assert only(java(flag=2)).is_oneway


@pytest.mark.parametrize(
    "changed",
    [
        {"code": 34},
        {"code": 3100},
        {"opaque": -7},
        {"remark": "r"},
        {"more": {"flag": 0, "language": "JAVA", "opaque": 1, "version": 1}},
    ],
)
def test_everything_else_is_read_as_on_the_other_port(changed: dict[str, Any]) -> None:
    data = java(**changed)
    assert only(data) == RequestDecoder().feed(data)[0] or isinstance(only(data), SendRequest)
    assert not isinstance(only(data), RawSend)


def test_what_cannot_be_read_is_refused_as_a_send_without_fields() -> None:
    broken = java().replace(b'"a":"PG"', b'"a":"PG,')
    raw = only(broken)
    assert isinstance(raw, RawSend)
    with pytest.raises(InvalidRequest):
        SendReader().read(raw.read())


def test_our_answers_are_recognised() -> None:
    request = SendReader().read(decode_frame(java()))
    answer = SendResponder("7F00000100002A9F").stored(
        request, queue_id=0, queue_offset=1, position=2, index=3, term=4
    )
    end = len(answer)
    assert stored_opaque(answer, PREFIX_SIZE, end) == 7
    other = encode_frame(Frame(0, 7, {"a": "b"}, flag=1))
    assert stored_opaque(other, PREFIX_SIZE, len(other)) is None
