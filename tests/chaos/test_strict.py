"""Values that look like evidence and are none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from chaos.strict import (
    COUNT,
    INDEX,
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    Shape,
    check,
    list_of,
    mapping_of,
    maybe,
    parse,
    row_of,
)


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "[Infinity]", '{"a":-Infinity}', '"\\ud800"', '{"\\udfff":1}', "[" * 100_000),
        *("1" * 5000, '{"a":1', "", "{}{}"),
    ],
)
def test_what_is_no_json_or_cannot_be_printed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_whole_pairs_of_surrogates_are_text() -> None:
    assert parse('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    ("shape", "right", "wrong"),
    [
        (TEXT, ["", "a"], [None, 1, []]),
        (TRUTH, [True, False], [0, 1, "true"]),
        (WHOLE, [0, -5, 2**63 - 1], [True, 1.0, 2**63, "1"]),
        (COUNT, [0, 7], [-1, True, 0.0]),
        (INDEX, [-1, 0], [-2, None]),
        (NUMBER, [0, -1.5], [math.nan, math.inf, 10**30, True, "1"]),
        (maybe(COUNT), [None, 3], [-3, ""]),
        (list_of(TEXT), [[], ["a"]], ["a", ["a", 1], {}]),
        (mapping_of(COUNT), [{}, {"a": 1}], [[], {"a": -1}]),
        (row_of(COUNT, TEXT), [[1, "a"]], [[1], ["a", 1], [1, "a", 2], "1a"]),
    ],
)
def test_a_shape_takes_its_own_kind_alone(shape: Shape, right: list[Any], wrong: list[Any]) -> None:
    assert all(shape.fits(value) for value in right)
    assert not any(shape.fits(value) for value in wrong)


def test_a_wrong_field_is_named_with_what_it_must_be() -> None:
    assert check({"a": 1, "more": None}, {"a": COUNT}) == {"a": 1, "more": None}
    with pytest.raises(ValueError, match="a is missing"):
        check({}, {"a": COUNT})
    with pytest.raises(ValueError, match="a is -1 and must be a whole number, 0 or more"):
        check({"a": -1}, {"a": COUNT})
    with pytest.raises(ValueError, match=r"b is .* and must be a text"):
        check({"a": 1, "b": [0] * 1000}, {"a": COUNT}, {"b": TEXT})
    with pytest.raises(ValueError, match=r"\[\] is no object"):
        check([], {})
