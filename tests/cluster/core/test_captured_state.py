"""Whatever a state holds is read again as the standard library would have written it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.core.captured_state import SLICE_COUNT, CapturedState, encode_state
from cluster.core.topics import TopicConfig, TopicTable


class Row(NamedTuple):
    name: str
    end: int


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers(0, 4096), inner)
        | st.builds(Row, st.text(), st.integers(0, 2**40))
    ),
)


@given(VALUES)
def test_read_again_it_is_what_the_standard_library_writes(value: Any) -> None:
    assert json.loads(encode_state(value)) == json.loads(json.dumps(value))


def test_the_usual_state_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> str:
        raise AssertionError("the standard library was asked")

    monkeypatch.setattr(json, "dumps", slow)
    rows = [[Row("T", 3), {0: 5}], {"g": ("T", 0, True, None)}]
    assert encode_state(rows) == b'[[["T",3],{"0":5}],{"g":["T",0,true,null]}]'


@pytest.mark.parametrize("value", [[2**70], ["\udc80"]])
def test_what_only_the_standard_library_writes_is_written(value: list[object]) -> None:
    assert json.loads(encode_state(value)) == value


def test_what_is_no_part_of_a_state_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_state({"x": object()})


@pytest.mark.parametrize("count", [0, 1, SLICE_COUNT, 2 * SLICE_COUNT + 1])
def test_a_checkpoint_is_its_tables_by_name(count: int) -> None:
    topics, rest = TopicTable(), {"version": 4, "ends": {"T": [1, 2]}, "modes": list[int]()}
    for number in range(count):
        topics.replay_put(TopicConfig(f"t{number}"), number)
    captured = CapturedState(topics, rest)
    topics.replay_put(TopicConfig("later"), 0)
    rest["modes"] = [1]
    tables = captured.tables()
    assert list(tables) == ["topics", "version", "ends", "modes"]
    assert len(json.loads(tables["topics"])["rows"]) == count
    assert (tables["ends"], tables["modes"]) == (b'{"T":[1,2]}', b"[]")
    whole = captured.encode()
    assert json.loads(whole) == {name: json.loads(table) for name, table in tables.items()}
    assert whole == json.dumps(json.loads(whole), separators=(",", ":")).encode()
