"""Splits the text of an SQL92 filter into tokens, each when the parser asks for it.

Text behind the last token that the parser asks for is not read (docs/spec/store.md 7.4).
"""

from __future__ import annotations

import re
from typing import NamedTuple

KEYWORDS = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"}
    | {"CONTAINS", "STARTSWITH", "ENDSWITH"}
)

_SKIP = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<int>(?:[1-9][0-9]*|0)[lL]?)
  | (?P<text>'(?:[^']|'')*')
  | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<sign><>|>=|<=|[=<>(),+-])
    """,
    re.VERBOSE,
)


class Sql92ParseError(ValueError):
    """The expression cannot be read; the text says where."""


class Token(NamedTuple):
    """`kind`: float, int, text, name, sign, keyword or end; `text` of keywords is upper case."""

    kind: str
    text: str
    at: int


class Tokens:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ahead: list[Token] = []

    def peek(self, distance: int = 0) -> Token:
        """The token `distance` after the next one, without taking it.

        Raises Sql92ParseError for characters that begin no token.
        """
        while len(self._ahead) <= distance:
            self._ahead.append(self._read())
        return self._ahead[distance]

    def take(self) -> Token:
        """Return the next token and move behind it. Raises Sql92ParseError as `peek`."""
        token = self.peek()
        self._ahead.pop(0)
        return token

    def _read(self) -> Token:
        skipped = _SKIP.match(self._text, self._at)
        at = skipped.end() if skipped is not None else self._at
        if at == len(self._text):
            return Token("end", "", at)
        found = _TOKEN.match(self._text, at)
        if found is None:
            raise Sql92ParseError(f"{self._text[at : at + 20]!r} at character {at} is no token")
        self._at = found.end()
        kind, text = str(found.lastgroup), found[0]
        if kind == "name" and text.upper() in KEYWORDS:
            return Token("keyword", text.upper(), at)
        return Token(kind, text, at)
