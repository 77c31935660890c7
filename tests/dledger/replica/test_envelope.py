"""Our own bodies are real messages; nobody else's bytes are taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.records.message import Message, decode_message, encode_message
from dledger.core.types import NodeId, Term
from dledger.errors import LogUsageError
from dledger.replica.envelope import (
    ENTRY_TOPIC,
    NOOP_TOPIC,
    STAMP_AT,
    Tag,
    is_envelope,
    is_noop,
    noop_body,
    open_tagged,
    tagged_body,
)

text = st.text(st.characters(min_codepoint=3, exclude_categories=["Cs"]), min_size=1, max_size=40)


def test_a_noop_is_a_message_that_java_walks_past() -> None:
    body = noop_body(NodeId("n1"), Term(5), 1234)
    body[STAMP_AT : STAMP_AT + 8] = (4096).to_bytes(8, "big")  # as the storage stamps it
    message = decode_message(body)
    assert (message.topic, message.body) == (NOOP_TOPIC, b"n1 leads term 5")
    assert message.physical_offset == 4096
    assert message.store_timestamp_ms == 1234
    assert message.transaction_type == 0xC, "rolled back: in no consume queue, in no key index"
    assert message.record_size == len(body)
    assert is_noop(body)
    assert is_envelope(body)
    assert open_tagged(body) is None


@given(text, st.just("") | text, st.integers(0, 2**62), st.binary(max_size=200))
def test_a_tagged_body_comes_back(producer: str, stream: str, sequence: int, body: bytes) -> None:
    tag = Tag(producer, stream, sequence)
    made = tagged_body(tag, body, 99)
    opened = open_tagged(memoryview(made))
    assert opened is not None
    assert (opened.tag, bytes(opened.body), opened.store_timestamp_ms) == (tag, body, 99)
    assert decode_message(made).topic == ENTRY_TOPIC
    assert is_envelope(made)
    assert not is_noop(made)


@pytest.mark.parametrize(
    "tag",
    [
        Tag("", "", 0),
        Tag("p" * 256, "", 0),
        Tag("p", "s" * 1025, 0),
        Tag("p", "", -1),
        Tag("a\1b", "", 0),
        Tag("a", "b\2", 0),
    ],
)
def test_impossible_tags_are_refused(tag: Tag) -> None:
    with pytest.raises(LogUsageError):
        tagged_body(tag, b"x", 0)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_envelope(body: bytes) -> None:
    assert not is_envelope(body)
    assert open_tagged(body) is None


def test_other_messages_are_no_envelope() -> None:
    body = encode_message(Message("orders", b"x" * 100, {"__PID": "p", "__SEQ": "1"}))
    assert not is_envelope(body)
    assert open_tagged(body) is None
    cut = noop_body(NodeId("n1"), Term(5), 0)[:-3]
    assert not is_noop(cut[:20])
