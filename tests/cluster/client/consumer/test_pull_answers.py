"""One pass over a pull's answer finds what the plain decoder finds, also in damaged bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.client.consumer.pull_answers import messages_in
from cluster.client.message import ReceivedMessage, received
from cluster.protocol.json_body import MessageQueue
from commitlog.errors import StoreDamaged
from commitlog.records.hosts import Host
from commitlog.records.message import Message, decode_message, encode_message

QUEUE = MessageQueue("T", "b", 0)

random_search = settings(deadline=None, max_examples=60)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=8)
hosts = st.sampled_from([Host("192.0.2.1", 9), Host("2001:db8::1", 9)])
messages = st.builds(
    Message,
    topic=st.sampled_from(["T", "t" * 127, "%RETRY%" + "g" * 200]),
    body=st.binary(max_size=40),
    properties=st.dictionaries(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "x"]) | texts, texts),
    queue_offset=st.integers(0, 1 << 40),
    physical_offset=st.integers(0, 1 << 40),
    sys_flag=st.sampled_from([0, 1, 8]),
    born_timestamp_ms=st.integers(0, 1 << 41),
    born_host=hosts,
    store_timestamp_ms=st.integers(0, 1 << 41),
    store_host=hosts,
    reconsume_times=st.integers(0, 16),
)
answers = st.lists(messages, max_size=4).map(lambda found: b"".join(map(encode_message, found)))


def plain(data: bytes) -> list[ReceivedMessage] | str:
    """What a decoder without any shortcut says: the messages, or the damage."""
    found, at = [], 0
    try:
        while at < len(data):
            stored = decode_message(data, at)
            found.append(received(QUEUE, stored))
            at += stored.record_size
    except StoreDamaged as error:
        return str(error)
    return found


def in_one_pass(data: bytes) -> list[ReceivedMessage] | str:
    try:
        found, size = messages_in(QUEUE, data, 0, None)
    except StoreDamaged as error:
        return str(error)
    assert size == sum(len(message.stored_body) for message in found)
    return found


def fields(found: list[ReceivedMessage] | str) -> object:
    """All that an application can ask of a message."""
    if isinstance(found, str):
        return found
    return [
        (
            *(message.queue, message.queue_offset, message.stored_body, message.position),
            *(message.born_timestamp_ms, message.store_timestamp_ms, message.reconsume_times),
            *(message.sys_flag, dict(message.properties), message.keys, message.tags),
            *(message.topic, message.message_id, message.attempt),
        )
        for message in found
    ]


@random_search
@given(answers)
def test_whole_answers(data: bytes) -> None:
    found = in_one_pass(data)
    assert not isinstance(found, str)
    assert fields(found) == fields(plain(data))


@random_search
@given(answers.filter(bool), st.data())
def test_damaged_answers(data: bytes, draw: st.DataObject) -> None:
    """Bytes changed, cut off or added anywhere: the same messages or the same damage."""
    compare_damaged(data, draw)


@pytest.mark.long
@settings(random_search, max_examples=1000)
@given(answers.filter(bool), st.data())
def test_a_thousand_answers_whole_and_damaged(data: bytes, draw: st.DataObject) -> None:
    assert fields(in_one_pass(data)) == fields(plain(data))
    compare_damaged(data, draw)


def compare_damaged(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(changed) - 1))
        changed[at] = draw.draw(st.integers(0, 255))
    end = draw.draw(st.integers(0, len(changed)))
    mutated = bytes(changed[:end] if draw.draw(st.booleans()) else changed)
    mutated += draw.draw(st.binary(max_size=3))
    assert fields(in_one_pass(mutated)) == fields(plain(mutated))


def test_each_bit_of_what_is_checked() -> None:
    """A changed bit of the body, of its CRC or of a size is damage."""
    record = encode_message(Message("T", b"body", {"KEYS": "k"}))
    guarded = [*range(12), *range(84, 88 + len(b"body"))]
    for at in guarded:
        for bit in range(8):
            data = bytearray(record)
            data[at] ^= 1 << bit
            with pytest.raises(StoreDamaged):
                messages_in(QUEUE, bytes(data), 0, None)


def test_properties_as_the_last_pair_says() -> None:
    """Of a name that stands twice the last value counts; what is no UTF-8 is replaced."""
    block = b"KEYS\x01a\x02TAGS\x01x\x02KEYS\x01b c\x02KEYS\x01\x02UNIQ_KEY\x01\xe2\x02"
    message = ReceivedMessage(QUEUE, 0, b"", block, 0, 0, 0, 0, 0)
    assert message.keys == ["b", "c"] == message.properties["KEYS"].split()
    assert message.tags == message.properties["TAGS"] == "x"
    assert message.message_id == message.properties["UNIQ_KEY"] == "�"


def test_what_is_not_wanted() -> None:
    data = b"".join(
        encode_message(Message("T", b"x", {"TAGS": tag}, queue_offset=offset))
        for offset, tag in enumerate("abab")
    )
    found, size = messages_in(QUEUE, data, 1, lambda tags: tags == "a")
    assert [message.queue_offset for message in found] == [2]
    assert size == 1
