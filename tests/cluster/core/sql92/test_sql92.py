"""Every vector of docs/spec/store.md 7.4, and the limits that the vectors leave open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.core.sql92.expressions import Sql92EvalError
from cluster.core.sql92.lexer import KEYWORDS, Sql92ParseError
from cluster.core.sql92.parser import DEPTH_MAX, LENGTH_MAX, parse

PROPERTIES = {"a": "7", "a2": "10", "b": "hello", "c": "it's", "t": "true", "n": "-3", "f": "2.50"}
VECTORS: list[list[str]] = json.loads(
    (Path(__file__).parents[3] / "data" / "vectors" / "sql92_vectors.json").read_text()
)


def outcome(text: str) -> str:
    try:
        expression = parse(text)
    except Sql92ParseError:
        return "parse_error"
    try:
        value = expression.value(PROPERTIES)
    except Sql92EvalError:
        return "eval_error"
    return {True: "true", False: "false", None: "null"}[value]  # type: ignore[index]


def test_all_vectors_are_here() -> None:
    assert len(VECTORS) == 131


@pytest.mark.parametrize(("text", "wanted"), VECTORS, ids=[text for text, _ in VECTORS])
def test_vector(text: str, wanted: str) -> None:
    assert outcome(text) == wanted
    if wanted != "parse_error":
        assert parse(text).matches(PROPERTIES) == (wanted == "true"), "true alone matches"


@pytest.mark.parametrize(
    "text",
    [
        "(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1),
        "NOT " * (DEPTH_MAX + 1) + "a",
        "a = a" * 1 + " = a" * (DEPTH_MAX + 1),
        "a IS NULL" + " IS NULL" * (DEPTH_MAX + 1),
        "a > " + "-" * 2 + "\n" + "- " * (DEPTH_MAX + 1) + "1",
        "a" * (LENGTH_MAX + 1),
    ],
)
def test_what_is_too_deep_or_too_long_is_refused(text: str) -> None:
    assert outcome(text) == "parse_error"


def test_a_long_chain_of_ors_is_not_deep() -> None:
    assert parse(" OR ".join(["a = 1"] * 500 + ["a = 7"])).matches(PROPERTIES)


PIECES = st.sampled_from(
    [*sorted(KEYWORDS), *"=<>(),+-", "<>", ">=", "<=", "'x'", "''", "7", "2.5", ".5", "a", "z", "!"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map(" ".join) | st.text(max_size=60))
def test_any_text_has_an_outcome(text: str) -> None:
    assert outcome(text) in {"true", "false", "null", "parse_error", "eval_error"}


@pytest.mark.parametrize("text", ["TRUE = 1", "1 = TRUE", "TRUE = 1.5", "(1 = 1) = 1"])
def test_a_boolean_is_no_number(text: str) -> None:
    """ComparisonExpression: two types that are not compared are not equal."""
    assert outcome(text) == "false"
