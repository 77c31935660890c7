"""Text → expression, by recursive descent (docs/spec/store.md 7.4); loosest first:

    or          and (OR and)*
    and         equality (AND equality)*
    equality    comparison (= comparison | <> comparison | IS [NOT] NULL)*
    comparison  unary (> >= < <= unary | [NOT] BETWEEN unary AND unary | [NOT] IN ('…', …)
                       | [NOT] CONTAINS|STARTSWITH|ENDSWITH '…')*
    unary       + unary | - unary | NOT unary | literal | name | ( or )

There is no check that the text ends where the expression does; RocketMQ has none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from cluster.core.sql92.expressions import (
    Cast,
    Condition,
    Constant,
    Equal,
    Expression,
    In,
    IsNull,
    Junction,
    Less,
    Negative,
    Not,
    Part,
    Property,
    Truth,
)
from cluster.core.sql92.lexer import Sql92ParseError, Tokens

LENGTH_MAX = 8 * 1024  # characters; subscriptions are typed by people. Bounds the work per message
DEPTH_MAX = 64  # parentheses, signs and comparisons inside each other; bounds recursion
_LONG_MAX = (1 << 63) - 1
_DOUBLE_MIN = 4.9e-324

_ORDERS: dict[str, Callable[[object, object], bool]] = {
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
}
_PARTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def parse(text: str) -> Expression:
    """The expression of a subscription.

    Raises:
        Sql92ParseError: it cannot be read, or says nothing about a message.
    """
    if len(text) > LENGTH_MAX:
        raise Sql92ParseError(f"it has {len(text)} characters and {LENGTH_MAX} is the limit")
    return _condition(_Parser(text).any_of())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._depth = 0

    def any_of(self) -> Expression:
        operands = [self._all_of()]
        while self._is_keyword("OR"):
            self._tokens.take()
            operands.append(self._all_of())
        return _junction(operands, stops_at=True)

    def _all_of(self) -> Expression:
        operands = [self._equality()]
        while self._is_keyword("AND"):
            self._tokens.take()
            operands.append(self._equality())
        return _junction(operands, stops_at=False)

    def _equality(self) -> Expression:
        left, depth = self._comparison(), self._depth
        while True:  # until no operator follows; DEPTH_MAX bounds it
            token = self._tokens.peek()
            if token.kind == "sign" and token.text in ("=", "<>"):
                self._tokens.take()
                self._deeper()
                equal = Equal(_comparable(left), _comparable(self._comparison()))
                left = equal if token.text == "=" else Not(equal)
            elif self._is_keyword("IS"):
                self._tokens.take()
                self._deeper()
                negated = self._skip("NOT")
                self._expect("NULL")
                left = Not(IsNull(left)) if negated else IsNull(left)
            else:
                self._depth = depth
                return left

    def _comparison(self) -> Expression:
        left, depth = self._unary(), self._depth
        while True:  # until no operator follows; DEPTH_MAX bounds it
            token = self._tokens.peek()
            if token.kind == "sign" and token.text in _ORDERS:
                self._tokens.take()
                right = self._unary()
                left = Less(_ordered(left), _ordered(right), _ORDERS[token.text])
            else:
                found = self._range_or_part(left)
                if found is None:
                    self._depth = depth
                    return left
                left = found
            self._deeper()

    def _range_or_part(self, left: Expression) -> Expression | None:
        """BETWEEN, IN and the CONTAINS family, maybe with NOT; None when there is none."""
        negated = self._is_keyword("NOT")
        token = self._tokens.peek(int(negated))
        if token.kind != "keyword" or token.text not in {"BETWEEN", "IN", *_PARTS}:
            return None
        if negated:
            self._tokens.take()
        self._tokens.take()
        if token.text == "BETWEEN":
            return self._between(left, negated)
        if not isinstance(left, Property):
            raise Sql92ParseError(f"{token.text} at character {token.at} needs a property's name")
        if token.text == "IN":
            inside = In(left, frozenset(self._texts()))
            return Not(inside) if negated else inside
        return Part(left, self._text(), _PARTS[token.text], negated)

    def _between(self, value: Expression, negated: bool) -> Expression:
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        value, low, high = _ordered(value), _ordered(low), _ordered(high)
        if isinstance(low, Constant) and isinstance(high, Constant):
            assert isinstance(low.constant, int | float)
            assert isinstance(high.constant, int | float)
            if low.constant > high.constant:
                raise Sql92ParseError("BETWEEN needs its smaller value first")
        if negated:
            outside = (Less(value, low, _ORDERS["<"]), Less(value, high, _ORDERS[">"]))
            return Junction(outside, True)
        return Junction((Less(value, low, _ORDERS[">="]), Less(value, high, _ORDERS["<="])), False)

    def _texts(self) -> list[str]:
        self._sign("(")
        texts = [self._text()]
        while self._tokens.peek().text == ",":
            self._tokens.take()
            texts.append(self._text())
        self._sign(")")
        return texts

    def _text(self) -> str:
        token = self._tokens.take()
        if token.kind != "text":
            raise Sql92ParseError(f"a text in quotes is missing at character {token.at}")
        return token.text[1:-1].replace("''", "'")

    def _unary(self) -> Expression:
        token, depth = self._tokens.take(), self._depth
        self._deeper()
        found: Expression
        if token.kind == "sign" and token.text == "+":
            found = self._unary()
        elif token.kind == "sign" and token.text == "-":
            found = _negative(self._unary())
        elif token.kind == "keyword" and token.text == "NOT":
            found = Not(_condition(self._unary()))
        elif token.kind == "sign" and token.text == "(":
            found = self.any_of()
            self._sign(")")
        elif token.kind == "name":
            found = Property(token.text)
        else:
            found = _literal(token.kind, token.text, token.at)
        self._depth = depth
        return found

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise Sql92ParseError(f"it is nested more than {DEPTH_MAX} deep")

    def _is_keyword(self, word: str) -> bool:
        token = self._tokens.peek()
        return token.kind == "keyword" and token.text == word

    def _skip(self, word: str) -> bool:
        found = self._is_keyword(word)
        if found:
            self._tokens.take()
        return found

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            raise Sql92ParseError(f"{word} is missing at character {self._tokens.peek().at}")

    def _sign(self, sign: str) -> None:
        token = self._tokens.take()
        if token.text != sign or token.kind != "sign":
            raise Sql92ParseError(f"{sign} is missing at character {token.at}")


def _literal(kind: str, text: str, at: int) -> Expression:
    if kind == "text":
        return Constant(text[1:-1].replace("''", "'"))
    if kind == "int":
        number = int(text.rstrip("lL"))
        if number > _LONG_MAX:
            raise Sql92ParseError(f"{text} does not fit into 64 bits")
        return Constant(number)
    if kind == "float":
        real = float(text)
        if real < _DOUBLE_MIN or real == float("inf"):
            raise Sql92ParseError(f"{text} is out of range")
        return Constant(real)
    if kind == "keyword" and text in ("TRUE", "FALSE"):
        return Truth(text == "TRUE")
    if kind == "keyword" and text == "NULL":
        return Constant(None)
    raise Sql92ParseError(f"a value is missing at character {at}")


def _negative(operand: Expression) -> Expression:
    if isinstance(operand, Constant) and isinstance(operand.constant, int | float):
        return Constant(-operand.constant)
    return Negative(operand)


def _junction(operands: list[Expression], *, stops_at: bool) -> Expression:
    if len(operands) == 1:
        return operands[0]
    return Junction(tuple(_condition(operand) for operand in operands), stops_at)


def _condition(found: Expression) -> Expression:
    """The expression as a condition. Raises Sql92ParseError for one that is never true or false."""
    if isinstance(found, Condition):
        return found
    if isinstance(found, Property):
        return Cast(found)
    raise Sql92ParseError("it does not say whether a message matches")


def _comparable(found: Expression) -> Expression:
    if isinstance(found, Constant) and found.constant is None:
        raise Sql92ParseError("NULL cannot be compared; write IS NULL")
    return found


def _ordered(found: Expression) -> Expression:
    """An operand of < <= > >= BETWEEN: a property or a number."""
    if isinstance(found, Condition) or (
        isinstance(found, Constant) and not isinstance(found.constant, int | float)
    ):
        raise Sql92ParseError("only numbers and properties can be ordered")
    return found
