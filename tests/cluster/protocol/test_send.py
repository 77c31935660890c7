"""Sends and their answers: by template and by field, they must be the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import InvalidRequest, QueueFull, RemoteProtocolError, SequenceGap
from cluster.protocol.batch import BatchItem, encode_numbered, iterate
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, decode_frame, encode_frame
from cluster.protocol.offset_id import decode_offset_id, encode_offset_id, store_host_hex
from cluster.protocol.send import SendReader, SendRequest, message_count, to_frame
from cluster.protocol.send_own import RequestDecoder, ResponseDecoder, SendEncoder, SendResult
from cluster.protocol.send_response import SendResponder, refuse_send

random_search = settings(deadline=None, max_examples=60)  # other tests share the machine

PROPERTIES = b"__PID\x01p\x02__SEQ\x017\x02UNIQ_KEY\x0100FF\x02KEYS\x01k%d\x02"
NAMES = st.text("abcXYZ-_%|09", min_size=1, max_size=40)


def encoder(queue_id: int = 2, topic: str = "orders", *, is_batch: bool = False) -> SendEncoder:
    return SendEncoder(
        producer_group="PG", topic=topic, queue_id=queue_id, broker_name="b", is_batch=is_batch
    )


def send(decoder: RequestDecoder, data: bytes) -> SendRequest:
    (item,) = decoder.feed(data)
    assert isinstance(item, SendRequest)
    return item


@random_search
@given(
    topic=NAMES,
    queue_id=st.integers(0, 5000),
    opaque=st.integers(0, 2**31 - 1),
    born=st.integers(0, 9_999_999_999_999),
    keys=st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=30),
    body=st.binary(max_size=60),
    is_batch=st.booleans(),
)
def test_our_frames_by_template_equal_the_same_by_field(
    topic: str, queue_id: int, opaque: int, born: int, keys: str, body: bytes, is_batch: bool
) -> None:
    properties = f"KEYS\x01{keys}\x02".encode()
    data = encoder(queue_id, topic, is_batch=is_batch).frame(opaque, properties, body, born)
    by_field = SendReader().read(decode_frame(data))
    decoder = RequestDecoder()
    first, second = send(decoder, data), send(decoder, data)
    assert first.template is second.template, "the second one came by template"
    for request in (first, second):
        assert request[2:] == by_field[2:]
        assert (request.opaque, request.template.topic) == (opaque, topic)
        assert request.template.queue_id == queue_id
        assert (request.properties, request.body) == (properties, body)
        assert request.born_timestamp_ms == born
    assert decode_frame(encode_frame(to_frame(second))).ext == decode_frame(data).ext


def test_many_queues_share_a_connection() -> None:
    decoder = RequestDecoder()
    encoders = [encoder(queue_id) for queue_id in (1, 9, 10, 100)]
    for _ in range(3):
        for queue_id, one in zip((1, 9, 10, 100), encoders, strict=True):
            request = send(decoder, one.frame(5, PROPERTIES, b"x", 1))
            assert request.template.queue_id == queue_id


@random_search
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 10]),
            st.sampled_from([5, 1_700_000_000_000]),
            st.booleans(),
            st.sampled_from(["as it is", "response", "bad born time", "batch code", "oneway"]),
        ),
        max_size=12,
    )
)
def test_what_was_read_before_changes_no_send(sends: list[tuple[int, int, bool, str]]) -> None:
    """A connection's decoder reads each frame as one that never saw another frame."""
    decoder = RequestDecoder()
    for opaque, (queue_id, born, is_batch, change) in enumerate(sends):
        data = bytearray(encoder(queue_id, is_batch=is_batch).frame(opaque, PROPERTIES, b"x", born))
        if change == "response":
            data[20] |= 1
        elif change == "oneway":
            data[20] |= 2
        elif change == "batch code":
            data[8:10] = int(RequestCode.SEND_BATCH_MESSAGE).to_bytes(2, "big")
        elif change == "bad born time":
            at = data.index(b"\x00\x01g\x00\x00\x00\x0d") + 7
            data[at : at + 13] = b"x" * 13
        (found,) = decoder.feed(bytes(data))
        (alone,) = RequestDecoder().feed(bytes(data))
        assert type(found) is type(alone)
        if isinstance(found, SendRequest) and isinstance(alone, SendRequest):
            assert found._replace(template=alone.template) == alone
            assert to_frame(found) == to_frame(alone)
        else:
            assert found == alone


@random_search
@given(st.data())
def test_a_changed_byte_is_never_read_as_the_unchanged_send(data: st.DataObject) -> None:
    frame = encoder().frame(5, PROPERTIES, b"body", 1_700_000_000_000)
    decoder = RequestDecoder()
    send(decoder, frame)
    at = data.draw(st.integers(8, len(frame) - 5))
    changed = bytearray(frame)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        items = decoder.feed(bytes(changed))
    except RemoteProtocolError:
        return
    assert items != [send(RequestDecoder(), frame)]
    plain = decode_frame(bytes(changed))
    if isinstance(items[0], SendRequest):
        assert items[0].opaque == plain.opaque
        assert items[0].properties.decode("utf-8", "replace") == plain.ext.get("i", "")


def test_sends_by_field_name_are_the_same() -> None:
    names = {
        "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4", "queueId": "1", "sysFlag": "0", "bornTimestamp": "5",
        "flag": "3", "properties": "K\x01v\x02", "reconsumeTimes": "2", "unitMode": "1",
        "batch": "1", "maxReconsumeTimes": "16", "bname": "b",
    }  # fmt: skip
    request = SendReader().read(Frame(RequestCode.SEND_MESSAGE, 1, names, b"x"))
    template = request.template
    assert (template.flag, template.reconsume_times, template.max_reconsume_times) == (3, 2, 16)
    assert template.is_batch, 'C++ says batch:"1"'
    assert template.unit_mode
    assert request.properties == b"K\x01v\x02"


@pytest.mark.parametrize("missing", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_a_missing_field_is_named(missing: str) -> None:
    frame = decode_frame(encoder().frame(5, PROPERTIES, b"x", 1))
    ext = {key: value for key, value in frame.ext.items() if key != missing}
    broken = frame._replace(ext=ext)
    with pytest.raises(InvalidRequest, match=f"lacks its field {missing} "):
        SendReader().read(broken)
    (item,) = RequestDecoder().feed(encode_frame(broken))
    assert isinstance(item, Frame), "so that it can be answered"


def test_our_answer_is_an_ordinary_frame_too() -> None:
    responder = SendResponder(store_host_hex("127.0.0.1", 10911))
    request = send(RequestDecoder(), encoder().frame(77, PROPERTIES, b"x", 1))
    data = responder.stored(request, queue_id=2, queue_offset=5, position=1 << 40, index=9, term=3)
    assert ResponseDecoder().feed(data) == [SendResult(77, 2, 5, 9, 3, 1 << 40)]
    frame = decode_frame(data)
    assert (frame.code, frame.opaque, frame.flag) == (0, 77, 1)
    assert decode_offset_id(frame.ext["msgId"]) == ("127.0.0.1", 10911, 1 << 40)
    assert (int(frame.ext["queueId"]), int(frame.ext["queueOffset"])) == (2, 5)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_foreign_client_gets_what_java_needs(kind: int) -> None:
    own = decode_frame(encoder().frame(77, PROPERTIES, b"x", 1))
    frame = own._replace(version=409, language="JAVA", kind=kind)
    request = SendReader().read(frame)
    responder = SendResponder(store_host_hex("10.0.0.2", 10911))
    answer = decode_frame(
        responder.stored(
            request,
            queue_id=2,
            queue_offset=7,
            position=0x400,
            index=9,
            term=3,
            more_positions=[0x500],
        )
    )
    assert answer.kind == kind
    assert answer.ext == {
        "msgId": "0A00000200002A9F0000000000000400,0A00000200002A9F0000000000000500",
        "queueId": "2",
        "queueOffset": "7",
        "transactionId": "00FF",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


def test_an_ipv6_broker_answers_our_client_by_field() -> None:
    responder = SendResponder(store_host_hex("::1", 10911))
    request = send(RequestDecoder(), encoder().frame(77, PROPERTIES, b"x", 1))
    (answer,) = ResponseDecoder().feed(
        responder.stored(request, queue_id=2, queue_offset=5, position=6, index=9, term=3)
    )
    assert isinstance(answer, Frame)
    assert (answer.ext["index"], answer.ext["term"]) == ("9", "3")
    assert decode_offset_id(answer.ext["msgId"])[2] == 6


def test_refusals_in_the_codes_of_the_client() -> None:
    request = send(RequestDecoder(), encoder().frame(77, PROPERTIES, b"x", 1))
    assert decode_frame(refuse_send(request, SequenceGap("gap"))).code == 31903
    foreign = SendReader().read(
        decode_frame(encoder().frame(77, PROPERTIES, b"x", 1))._replace(version=317)
    )
    assert decode_frame(refuse_send(foreign, SequenceGap("gap"))).code == 14
    assert decode_frame(refuse_send(foreign, QueueFull("full"))).code == 2


@random_search
@given(st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30)), max_size=5))
def test_batches(messages: list[tuple[bytes, bytes]]) -> None:
    data = encode_numbered([(None, *message, None) for message in messages], b"P%d\x02", 7)
    messages = [(body, b"P%d\x02" % (7 + at) + end) for at, (body, end) in enumerate(messages)]
    assert list(iterate(data)) == [BatchItem(0, body, props) for body, props in messages]
    for cut in range(len(data)):
        try:
            found = list(iterate(data[:cut]))
        except InvalidRequest:
            continue
        assert found == [BatchItem(0, *message) for message in messages[: len(found)]]


def test_offset_ids() -> None:
    assert encode_offset_id("10.0.0.2", 10911, 1024) == "0A00000200002A9F0000000000000400"
    assert decode_offset_id(encode_offset_id("::1", 1, 2)) == ("::1", 1, 2)
    for bad in ("", "zz", "00" * 15, "00" * 17):
        with pytest.raises(InvalidRequest, match="offset message id"):
            decode_offset_id(bad)


@pytest.mark.parametrize(
    ("code", "ext", "count"),
    [
        (320, {}, 50),
        (310, {"m": "true"}, 50),
        (310, {"m": "1"}, 50),
        (10, {"batch": "true"}, 50),
        (10, {"m": "true"}, 1),
        (310, {"batch": "true"}, 1),
    ],
)
def test_a_batch_is_counted_as_the_reader_knows_it(
    code: int, ext: dict[str, str], count: int
) -> None:
    """Else its account sends more than its quota."""
    body = 50 * ((100).to_bytes(4, "big") + bytes(96))
    assert message_count(Frame(code, 1, ext, body)) == count
