"""Strict JSON for evidence: no NaN, no infinity, and every field of the type that it is used as.

Who judges a damaged file must not stumble over it later, or worse, judge it: what is read through
here is what its reader believes it to be, or a ValueError that says what is wrong. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

WHOLE_MAX = 1 << 63  # offsets, terms and clocks of 64 bits; beyond it floats overflow
SHOWN_MAX = 60  # characters of a wrong value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def parse(text: str) -> Any:
    """Parses one JSON value. Raises ValueError also for text that cannot be encoded again."""
    try:
        found = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("its brackets are too deep") from None
    if "\\u" in text:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair is no text") from None
    return found


class Shape(NamedTuple):
    """The values that a field may hold; `words` end the sentence "… must be …"."""

    words: str
    fits: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return type(value) is int and -WHOLE_MAX <= value < WHOLE_MAX  # True is an int to Python


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (type(value) is float and math.isfinite(value))


TEXT = Shape("a text", lambda value: type(value) is str)
TRUTH = Shape("true or false", lambda value: type(value) is bool)
WHOLE = Shape("a whole number", _is_whole)
NUMBER = Shape("a number", _is_number)
OBJECT = Shape("an object", lambda value: type(value) is dict)
COUNT = Shape("a whole number, 0 or more", lambda value: _is_whole(value) and value >= 0)
INDEX = Shape("a whole number, -1 or more", lambda value: _is_whole(value) and value >= -1)
LENGTH = Shape("a number, 0 or more", lambda value: _is_number(value) and value >= 0)


def maybe(shape: Shape) -> Shape:
    """Or null."""
    return Shape(f"{shape.words} or null", lambda value: value is None or shape.fits(value))


def list_of(shape: Shape) -> Shape:
    """Any number of them."""
    words = f"a list, each of it {shape.words}"
    return Shape(words, lambda value: type(value) is list and all(map(shape.fits, value)))


def mapping_of(shape: Shape) -> Shape:
    """Names of any kind, each with one of them."""
    words = f"an object, each of its values {shape.words}"
    return Shape(words, lambda value: type(value) is dict and all(map(shape.fits, value.values())))


def row_of(*shapes: Shape) -> Shape:
    """A list of so many values, one after the other of these shapes."""
    words = f"a list of {', '.join(shape.words for shape in shapes)}"

    def fits(value: Any) -> bool:
        return (
            type(value) is list
            and len(value) == len(shapes)
            and all(shape.fits(one) for shape, one in zip(shapes, value, strict=True))
        )

    return Shape(words, fits)


Fields = Mapping[str, Shape]


def check(found: Any, must: Fields, may: Fields | None = None) -> dict[str, Any]:
    """`found`, an object that has all of `must` and perhaps some of `may`. Raises ValueError.

    Fields that neither names are left to who reads them.
    """
    if type(found) is not dict:
        raise ValueError(f"{shown(found)} is no object")
    for name, shape in must.items():
        if name not in found:
            raise ValueError(f"{name} is missing")
        if not shape.fits(found[name]):
            raise ValueError(f"{name} is {shown(found[name])} and must be {shape.words}")
    for name, shape in (may or {}).items():
        if name in found and not shape.fits(found[name]):
            raise ValueError(f"{name} is {shown(found[name])} and must be {shape.words}")
    return found


def shown(value: object) -> str:
    """A wrong value, short enough for a sentence."""
    said = ascii(value)
    return said if len(said) <= SHOWN_MAX else said[:SHOWN_MAX] + "…"
