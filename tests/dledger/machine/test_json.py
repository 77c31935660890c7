"""JSON of commands and results: the same bytes with orjson and without, as nodes compare them."""

from __future__ import annotations

import enum
import json
import math
import uuid
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dledger.machine import state_machine
from dledger.machine.state_machine import json_bytes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def by_library(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def outcome(value: object) -> bytes | type[Exception]:
    """The bytes, or the kind of the error: a node may not take what another one refuses."""
    try:
        return json_bytes(value)
    except (TypeError, ValueError) as error:
        return type(error)


def both(value: object) -> list[bytes | type[Exception]]:
    with pytest.MonkeyPatch.context() as patched:
        found = [outcome(value)]
        patched.setattr(state_machine, "_dumps", None)
        return [*found, outcome(value)]


@given(VALUES)
def test_bytes_are_those_of_the_standard_library(value: Any) -> None:
    assert both(value) == [by_library(value)] * 2


def test_each_character_is_written_alike() -> None:
    for first in range(0, 0x110000, 0x800):
        text = "".join(map(chr, range(first, first + 0x800)))
        if first != 0xD800:
            assert both(["set", text]) == [by_library(["set", text])] * 2


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    """A text, for the standard library."""


class Number(enum.IntEnum):
    ONE = 1


@dataclass
class Row:
    name: str


@pytest.mark.parametrize(
    "value",
    [
        *(1e16, 1e-7, math.nan, math.inf, -0.0, [1, 1e22], [None, math.nan]),
        *(1 << 64, [1 << 64], [-(1 << 63), (1 << 64) - 1], "\ud800", ["\ud800"]),
        *(Row("a"), [Row("a")], date(2026, 1, 2), [uuid.UUID(int=1)], Colour.RED, [Colour.RED]),
        *(Word("x"), [Word("x")], [Number.ONE], {1: 2}, (1, "a"), b"bytes", [b"bytes"], {1, 2}),
    ],
    ids=repr,
)
def test_what_is_taken_and_what_is_refused_depends_on_no_library(value: object) -> None:
    first, second = both(value)
    assert first == second


def test_orjson_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> str:
        raise AssertionError("the standard library was asked")

    monkeypatch.setattr(state_machine, "_encode_json", refuse)
    assert json_bytes(["set", "key", 3, None, True]) == b'["set","key",3,null,true]'
    with pytest.raises(AssertionError):
        json_bytes(["set", "key", 1.5])
