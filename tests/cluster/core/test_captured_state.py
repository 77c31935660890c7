"""Whatever a state holds is read again as the standard library would have written it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.core.captured_state import encode_state


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
