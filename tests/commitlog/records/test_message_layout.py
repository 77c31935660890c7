"""What begins at an address of a plain commit log (docs/spec/store.md 1.5)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.records.message import Message, encode_message
from commitlog.records.message_layout import MAGIC_BLANK, RecordKind, encode_blank, kind_at

from ..strategies import random_search


def test_the_kinds() -> None:
    record = encode_message(Message("T", b"x"))
    assert kind_at(record) == (RecordKind.MESSAGE, len(record))
    long = encode_message(Message("%RETRY%" + "a" * 200, b"x"))
    assert kind_at(b"\0" + long, 1) == (RecordKind.MESSAGE, len(long))
    assert kind_at(encode_blank(824)) == (RecordKind.BLANK, 824)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(4),
        bytes(100),
        encode_blank(824)[:7],
        struct.pack(">ii", -1, MAGIC_BLANK),
        struct.pack(">ii", 7, MAGIC_BLANK),
        struct.pack(">ii", 100, 1),
    ],
)
def test_the_end(data: bytes) -> None:
    assert kind_at(data) == (RecordKind.END, 0)


@random_search
@given(st.binary(max_size=30), st.integers(0, 30))
def test_anything_has_a_verdict(data: bytes, offset: int) -> None:
    kind, size = kind_at(data, offset)
    assert (kind is RecordKind.END) == (size == 0)
