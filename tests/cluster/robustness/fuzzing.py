"""Frames that should never be sent: mutations of captured ones, and invented ones.

    captured frame ─► bits, bytes, sizes, halves of others            (whole or not)
                   ─► header fields: gone, doubled, other values       (whole)
    a code of ours ─► names of any request's fields, values that hurt  (whole)

One seed gives the same frames again.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from random import Random
from types import ModuleType

from hypothesis import strategies as st

from cluster.errors import ProtocolError
from cluster.protocol import (
    admin_headers,
    fields,
    headers,
    recall_headers,
    replica_headers,
    reply_headers,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, FrameDecoder, decode_frame, encode_frame

VECTORS = json.loads(
    (Path(__file__).parents[2] / "data" / "vectors" / "remoting_vectors.json").read_text()
)
FRAMES = [bytes.fromhex(v["frameHex"]) for v in (*VECTORS["computed"], *VECTORS["captured"])]
PARSED = [decode_frame(frame) for frame in FRAMES]
CODES = [int(code) for code in RequestCode] + [0, -1, 9999, 32767]
MODULES = (headers, admin_headers, recall_headers, replica_headers, reply_headers)


def _wire_names(module: ModuleType) -> set[str]:
    kinds = [kind for _, kind in inspect.getmembers(module, inspect.isclass)]
    return {
        field.metadata.get("wire") or fields._camel(field.name)
        for kind in kinds
        if dataclasses.is_dataclass(kind)
        for field in dataclasses.fields(kind)
    }


NAMES = sorted(set().union(*map(_wire_names, MODULES)) | set("abcdefghijklmn") | {"", "x" * 300})
VALUES = [
    *("", "0", "1", "-1", "2", "3", "7", "true", "false", "null", "T", "CG", "PG", "broker-a"),
    *("TBW102", "%RETRY%CG", "%DLQ%CG", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"),
    *(str(1 << 31), str((1 << 31) - 1), str(1 << 63), str((1 << 63) - 1), str(-(1 << 63) - 1)),
    *("1e3", "0x10", " 1", "1 ", "+1", "1_0", "٣", "¹", "NaN", "-", "--1", "00000000000000000001"),
    *(
        "../../etc",
        "/",
        ".",
        "..",
        "a/b",
        "a b",
        "a\x00b",
        "\x00",
        "\x01",
        "\x02",
        "ä€😀",
        "\ud800",
    ),
    *("a || b", "*", "a > 1", "((((", "x" * 128, "x" * 256, "x" * 32_768, "9" * 5_000, "1,2;3"),
    *("k\x01v\x02", "DELAY\x013\x02", "DELAY\x0199999999999\x02", "TIMER_DELAY_SEC\x01x\x02"),
    *("__PID\x01p\x02__SEQ\x01-1\x02", "__SEQ\x01\x02", "TRAN_MSG\x01true\x02", "\x01\x01\x02\x02"),
    *("0" * 32, "F" * 32, "zz", "{", "[]", '{"a":', "127.0.0.1:1", "[::1]:1", "nonsense:port"),
]
BODIES = [
    *(b"", b"{}", b"[]", b"null", b"{", b"\xff" * 40, b"0" * 100, b"[" * 5_000, b'{"a":' * 2_000),
    *(b'{"clientID":1}', b'{"clientID":"c","consumerDataSet":[{}],"producerDataSet":[null]}'),
    *(b'{"topic":{"a":{}}}', b"k=v\n=\nx", b"\x00" * 64, b"\x7f\xff\xff\xff" * 8),
    b'{"mqSet":[{"topic":"T","brokerName":"b","queueId":9999999999999}],"clientId":5}',
]


class FrameFuzzer:
    """An endless source of frames; `next` gives one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def next(self) -> bytes:
        kind = self.random.random()
        if kind < 0.35:
            return self._mutated()
        return self._changed_fields() if kind < 0.75 else self._invented()

    def _mutated(self) -> bytes:
        """Bytes of a captured frame, harmed without a thought for its structure."""
        random, data = self.random, bytearray(self.random.choice(FRAMES))
        for _ in range(random.choice((1, 1, 2, 5))):
            at = random.randrange(len(data))
            deed = random.randrange(6)
            if deed == 0:
                data[at] ^= 1 << random.randrange(8)
            elif deed == 1:
                data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 0x16))
            elif deed == 2:
                del data[at : at + random.choice((1, 4, 40))]
            elif deed == 3:
                data[at:at] = bytes(random.choice((0, 0xFF)) for _ in range(random.choice((1, 9))))
            elif deed == 4:
                other = random.choice(FRAMES)
                data[at:] = other[random.randrange(len(other)) :]
            else:
                size = random.choice((0, 4, 5, len(data), len(data) - 4, 1 << 24, (1 << 31) - 1))
                data[:4] = size.to_bytes(4, "big")
            if len(data) < 8:
                break
        if random.random() < 0.6 and len(data) >= 8:
            data[:4] = (len(data) - 4).to_bytes(4, "big")  # so that it is looked into
        return bytes(data)

    def _changed_fields(self) -> bytes:
        """A captured request of which some fields are not what they were."""
        random, frame = self.random, self.random.choice(PARSED)
        ext = dict(frame.ext)
        for _ in range(random.choice((1, 1, 2, 3))):
            name = random.choice([*ext, random.choice(NAMES)])
            if random.random() < 0.25:
                ext.pop(name, None)
            else:
                ext[name] = random.choice(VALUES)
        body = frame.body
        if random.random() < 0.3:
            body = random.choice((*BODIES, body[: len(body) // 2], body + body, body[::-1]))
        return self._written(frame._replace(ext=ext, body=body))

    def _invented(self) -> bytes:
        """Any code with any fields."""
        random = self.random
        names = random.sample(NAMES, random.choice((0, 1, 3, 8, 20)))
        ext = {name: random.choice(VALUES) for name in names}
        if random.random() < 0.7:
            ext |= {"topic": "T", "consumerGroup": "CG", "queueId": random.choice(("0", "1", "9"))}
        return self._written(
            Frame(random.choice(CODES), random.getrandbits(31), ext, random.choice(BODIES))
        )

    def _written(self, frame: Frame) -> bytes:
        random = self.random
        frame = frame._replace(
            opaque=random.choice((frame.opaque, 0, -1, 1)),
            flag=random.choice((0, 0, 0, 0, frame.flag, 1, 2, 3, -1)),
            version=random.choice((0, 63, 317, 399, 479, 31001, 32767)),
            kind=random.randrange(2),
        )
        return written(frame)


def written(frame: Frame) -> bytes:
    """The frame's bytes; those of a whole one that nobody minds when it cannot be written."""
    try:
        return encode_frame(frame)
    except (ProtocolError, UnicodeEncodeError):
        return FRAMES[0]


def is_whole(frame: bytes) -> bool:
    """Is what follows it on its connection still read as frames?"""
    decoder = FrameDecoder()
    try:
        return len(decoder.feed(frame)) == 1 and decoder.rest_size == 0
    except ProtocolError:
        return False


_text = st.one_of(
    st.sampled_from(VALUES), st.text(max_size=30), st.integers(-(1 << 70), 1 << 70).map(str)
)
invented = st.builds(
    Frame,
    code=st.sampled_from(CODES),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    ext=st.dictionaries(st.sampled_from(NAMES), _text, max_size=12),
    body=st.one_of(st.sampled_from(BODIES), st.binary(max_size=200)),
    flag=st.sampled_from((0, 0, 0, 1, 2, 3)),
    version=st.sampled_from((0, 399, 479, 31001)),
    kind=st.integers(0, 1),
).map(written)
bent = st.builds(
    lambda frame, at, more, size: frame[: at % len(frame)] + more + frame[at % len(frame) + size :],
    st.sampled_from(FRAMES),
    st.integers(0, 1 << 16),
    st.binary(max_size=12),
    st.integers(0, 12),
)
frames = st.one_of(invented, bent)
"""For hypothesis: it shrinks what it finds to the few bytes that matter."""
