"""The tree of an expression, and its evaluation for a message (docs/spec/store.md 7.4).

Values are texts (properties), numbers, booleans and None (unknown). A text that meets a number is
read as that number's kind; two texts under < or > are read as floating point. What cannot be
converted is an evaluation error, and then the message does not match.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Value = str | int | float | bool | None
Properties = Mapping[str, str]

_LONG = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?\s*")
_LONG_MAX = (1 << 63) - 1


class Sql92EvalError(ValueError):
    """The expression cannot be evaluated for this message, which therefore does not match."""


class Expression:
    """One node."""

    def value(self, properties: Properties) -> Value:
        """Raises Sql92EvalError."""
        raise NotImplementedError

    def matches(self, properties: Properties) -> bool:
        """Exactly true, and no evaluation error."""
        try:
            return self.value(properties) is True
        except Sql92EvalError:
            return False


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A number, a text or NULL (None) that stands in the expression."""

    constant: Value

    def value(self, properties: Properties) -> Value:
        """The constant."""
        return self.constant


@dataclass(frozen=True, slots=True)
class Property(Expression):
    """A property of the message, by name."""

    name: str

    def value(self, properties: Properties) -> Value:
        """The property's text; None for a message without it."""
        return properties.get(self.name)


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """Unary minus: of a number; of anything else unknown."""

    operand: Expression

    def value(self, properties: Properties) -> Value:
        """None for a text, a boolean, or an unknown operand. Raises Sql92EvalError."""
        value = self.operand.value(properties)
        if isinstance(value, bool | str | None):
            return None
        return -value


class Condition(Expression):
    """A node with the value true, false or unknown."""


@dataclass(frozen=True, slots=True)
class Cast(Condition):
    """A property where a condition is wanted: false for every text, unknown without one."""

    operand: Expression

    def value(self, properties: Properties) -> Value:
        """None for an unknown operand, else False. Raises Sql92EvalError."""
        return None if self.operand.value(properties) is None else False


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """TRUE and FALSE."""

    truth: bool

    def value(self, properties: Properties) -> Value:
        """`truth`, for every message."""
        return self.truth


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """NOT of a condition."""

    operand: Expression

    def value(self, properties: Properties) -> Value:
        """None for an unknown operand. Raises Sql92EvalError."""
        value = self.operand.value(properties)
        return None if value is None else not value


@dataclass(frozen=True, slots=True)
class Junction(Condition):
    """AND (`stops_at` False) or OR (True): the first operand with that value decides."""

    operands: tuple[Expression, ...]
    stops_at: bool

    def value(self, properties: Properties) -> Value:
        """None if no operand decides and one is unknown. Raises Sql92EvalError."""
        unknown = False
        for operand in self.operands:
            value = operand.value(properties)
            if value is self.stops_at:
                return self.stops_at
            unknown = unknown or value is None
        return None if unknown else not self.stops_at


@dataclass(frozen=True, slots=True)
class Equal(Condition):
    """Two operands are equal."""

    left: Expression
    right: Expression

    def value(self, properties: Properties) -> Value:
        """None if an operand is unknown. Raises Sql92EvalError for kinds that cannot be
        compared.
        """
        left, right = self.left.value(properties), self.right.value(properties)
        if left is None or right is None:
            return None
        if type(left) is type(right):
            return left == right
        return compare(left, right, operator.eq)


@dataclass(frozen=True, slots=True)
class Less(Condition):
    """One of > >= < <=, as a function."""

    left: Expression
    right: Expression
    holds: Callable[[object, object], bool]

    def value(self, properties: Properties) -> Value:
        """None if an operand is unknown. Raises Sql92EvalError for kinds that cannot be
        compared.
        """
        left, right = self.left.value(properties), self.right.value(properties)
        if left is None or right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            return self.holds(as_double(left), as_double(right))
        return compare(left, right, self.holds)


@dataclass(frozen=True, slots=True)
class IsNull(Condition):
    """IS NULL."""

    operand: Expression

    def value(self, properties: Properties) -> Value:
        """True for an unknown operand; never None. Raises Sql92EvalError."""
        return self.operand.value(properties) is None


@dataclass(frozen=True, slots=True)
class In(Condition):
    """A property has one of several texts."""

    operand: Property
    texts: frozenset[str]

    def value(self, properties: Properties) -> Value:
        """None for a message without the property."""
        value = self.operand.value(properties)
        return None if value is None else value in self.texts


@dataclass(frozen=True, slots=True)
class Part(Condition):
    """CONTAINS, STARTSWITH, ENDSWITH; false for a missing property, also when negated."""

    operand: Property
    text: str
    holds: Callable[[str, str], bool]
    negated: bool

    def value(self, properties: Properties) -> Value:
        """False for an empty `text` too, also when negated; never None."""
        value = self.operand.value(properties)
        if not isinstance(value, str) or not self.text:
            return False
        return self.holds(value, self.text) is not self.negated


def compare(
    left: str | int | float, right: str | int | float, holds: Callable[[object, object], bool]
) -> bool:
    """Two values that are not both texts. Raises Sql92EvalError."""
    if isinstance(left, bool) or isinstance(right, bool):
        return _compare_booleans(left, right, holds)
    if isinstance(left, str):
        left = _like(left, right)
    elif isinstance(right, str):
        right = _like(right, left)
    return holds(left, right)


def _compare_booleans(
    left: str | int | float, right: str | int | float, holds: Callable[[object, object], bool]
) -> bool:
    """A text before a boolean is read as one; a text behind one is RocketMQ's error."""
    if isinstance(left, str):
        left = left.lower() == "true"
    elif isinstance(right, str):
        raise Sql92EvalError("a boolean is compared with a text")
    if not (isinstance(left, bool) and isinstance(right, bool)):
        return False
    return holds(left, right)


def _like(text: str, number: str | int | float) -> int | float:
    return as_double(text) if isinstance(number, float) else as_long(text)


def as_long(text: str) -> int:
    """Java's Long.valueOf. Raises Sql92EvalError."""
    if not _LONG.fullmatch(text) or len(text) > 20 or not -_LONG_MAX - 1 <= int(text) <= _LONG_MAX:
        raise Sql92EvalError(f"{text[:40]!r} is no whole number")
    return int(text)


def as_double(text: str) -> float:
    """Java's Double.valueOf. Raises Sql92EvalError."""
    if not _DOUBLE.fullmatch(text):
        raise Sql92EvalError(f"{text[:40]!r} is no number")
    return float(text.strip().rstrip("dDfF"))
