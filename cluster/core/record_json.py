"""Values of a record's JSON, each checked to fit into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from commitlog.records.places import QUEUE_ID_MAX

#: What JSON of any shape makes decoding raise; UnicodeError is a ValueError.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def why(error: Exception) -> str:
    """The reason as a sentence's part."""
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    return str(error) or type(error).__name__


def refuse_constant(name: str) -> None:
    """NaN and the infinities, which JSON does not have. Raises ValueError."""
    raise ValueError(f"{name} is no number")


def whole(value: Any, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    """A whole number within its bounds, or the digits of one."""
    number = int(value)
    if not low <= number <= high:
        raise ValueError(f"{number} is not within {low} and {high}")
    return number


def queue_id(value: Any) -> int:
    """A whole number that can be a queue's. Raises ValueError."""
    return whole(value, 0, QUEUE_ID_MAX)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts. Raises TypeError."""
    return tuple(map(text_of, listed(value)))


def listed(value: Any) -> Sequence[Any]:
    """The value, when it is a list. Raises TypeError."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"a {type(value).__name__} is no list")
    return value


def text_of(value: Any) -> str:
    """The value, when it is a text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is no text")
    return value
