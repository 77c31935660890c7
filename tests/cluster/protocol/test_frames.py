"""Limits, tolerance and bad input of the frame codec."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import LocalProtocolError, NotLeader, RemoteProtocolError
from cluster.protocol.frames import (
    FRAME_SIZE_MAX,
    HEADER_SIZE_MAX,
    REST_PIECE_MIN,
    Frame,
    FrameDecoder,
    decode_frame,
    encode_frame,
    refusal,
    response,
)

random_search = settings(deadline=None, max_examples=60)  # other tests share the machine

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
FRAMES = st.builds(
    Frame,
    code=st.integers(-1, 32767),
    opaque=st.integers(-(2**31), 2**31 - 1),
    ext=st.dictionaries(TEXTS, TEXTS, max_size=8),
    body=st.binary(max_size=100),
    flag=st.integers(0, 3),
    remark=st.none() | TEXTS.filter(bool),
    language=st.sampled_from(["JAVA", "CPP", "GO", "NODE_JS", "PYTHON"]),
    version=st.integers(0, 32767),
    kind=st.sampled_from([0, 1]),
)


def json_frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


@random_search
@given(FRAMES)
def test_what_is_written_is_read(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame)) == frame


@random_search
@given(st.lists(FRAMES, max_size=5), st.data())
def test_any_stream_cut_anywhere(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(frame) for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    decoder = FrameDecoder()
    found: list[Frame] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += decoder.feed(stream[begin:end])
    assert found == frames


@random_search
@given(st.binary(max_size=200))
def test_garbage_is_a_remote_error_or_waits(data: bytes) -> None:
    decoder = FrameDecoder()
    try:
        decoder.feed(data)
    except RemoteProtocolError:
        return
    assert decoder.rest_size <= len(data)


@random_search
@given(st.binary(max_size=120), st.sampled_from([0, 1]))
def test_garbage_headers_never_escape_as_other_errors(header: bytes, kind: int) -> None:
    data = struct.pack(">iI", 4 + len(header), kind << 24 | len(header)) + header
    try:
        frame = decode_frame(data)
    except RemoteProtocolError:
        return
    assert isinstance(frame.code, int)


@pytest.mark.parametrize(
    ("total", "mark"),
    [
        (FRAME_SIZE_MAX + 1, 10),
        (2**31 - 1, 0),
        (3, 0),
        (-1, 0),
        (100, 97),
        (FRAME_SIZE_MAX, HEADER_SIZE_MAX + 1),
        (100, 2 << 24 | 50),
    ],
)
def test_sizes_over_a_limit_are_refused_before_memory_is_taken(total: int, mark: int) -> None:
    decoder = FrameDecoder()
    with pytest.raises(RemoteProtocolError, match="connection is closed"):
        decoder.feed(struct.pack(">iI", total, mark))
    assert decoder.rest_size == 0


@pytest.mark.parametrize("sizes", [(1,), (1, 8192), (REST_PIECE_MIN, 1), (50_000,)])
def test_pieces_of_any_size_take_little_more_than_their_bytes(sizes: tuple[int, ...]) -> None:
    """Objects of single bytes would take fifty times what they hold."""
    body = bytes(range(256)) * 800
    data, decoder, at = encode_frame(Frame(10, 1, {"b": "T"}, body)), FrameDecoder(), 0
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for size in itertools.cycle(sizes):
            piece = data[at : min(at + size, len(data) - 1)]
            assert decoder.feed(piece) == []
            at += len(piece)
            if at == len(data) - 1:
                break
        del piece
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert decoder.rest_size == at
    assert kept < 1.3 * at + REST_PIECE_MIN
    (frame,) = decoder.feed(data[-1:])
    assert frame.body == body
    assert decoder.rest_size == 0


def test_frames_before_bad_bytes_are_not_lost() -> None:
    good = Frame(105, 1, {"topic": "T"})
    with pytest.raises(RemoteProtocolError) as caught:
        FrameDecoder().feed(encode_frame(good) + json_frame(b"[]"))
    assert caught.value.frames == [good]


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"[]", b"null", b'{"code":1}', b'{"opaque":1}', b'{"code":"x","opaque":1}'],
)
def test_headers_that_are_none(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_frame(json_frame(header))


def test_a_tolerant_reader() -> None:
    header = {
        "code": 11, "opaque": 5, "language": 3, "unknown": {"a": [1]}, "remark": "",
        "extFields": {"n": 32, "b": True, "f": False, "s": "x", "none": None, "d": 1.5},
    }  # fmt: skip
    frame = decode_frame(json_frame(orjson.dumps(header) + b"\n"))
    assert frame.ext == {"n": "32", "b": "true", "f": "false", "s": "x", "d": "1.5"}
    assert (frame.language, frame.remark, frame.flag, frame.version) == ("PYTHON", None, 0, 0)
    for absent in (b'{"code":34,"opaque":1}', b'{"code":34,"opaque":1,"extFields":null}'):
        assert decode_frame(json_frame(absent)).ext == {}


def test_a_strict_writer() -> None:
    data = encode_frame(Frame(0, 1, {"a": "1", "b": "x y"}, remark="two words"))
    assert b" " not in data.replace(b"x y", b"").replace(b"two words", b"")
    with pytest.raises(LocalProtocolError, match="text"):
        encode_frame(Frame(0, 1, {"a": 1}))  # type: ignore[dict-item]
    with pytest.raises(LocalProtocolError):
        encode_frame(Frame(200050, 1, kind=1))
    with pytest.raises(LocalProtocolError, match="send less"):
        encode_frame(Frame(10, 1, body=bytes(FRAME_SIZE_MAX)))
    with pytest.raises(LocalProtocolError, match="shorten"):
        encode_frame(Frame(10, 1, {"i": "x" * HEADER_SIZE_MAX}))


@pytest.mark.parametrize("kind", [0, 1])
def test_an_answer_has_the_form_of_its_request(kind: int) -> None:
    request = Frame(105, 77, {"topic": "T"}, flag=0, version=317, kind=kind)
    answer = response(request, 17, remark="no route")
    assert (answer.kind, answer.opaque, answer.is_response, answer.version) == (kind, 77, True, 479)
    told = refusal(request._replace(version=31001), NotLeader(leader="h:1"))
    assert (told.code, told.ext) == (31901, {"leader": "h:1"})
