"""Reads the body of a request as the original does, and answers a wrong one alike.

Like Go's decoder: the first JSON value counts and what follows it is not read; null is as if the
field were not there; a value of another type is an error; unknown fields are nobody's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Kind = TypeVar("_Kind", str, bool)


class Refused(Exception):
    """An error answer: its status, its text, and further fields of its JSON."""

    def __init__(self, status: int, text: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.status, self.more = status, dict(more or {})

    def to_fields(self) -> dict[str, Any]:
        """As the HTTP contract has it."""
        return {"error": str(self), "status": self.status, **self.more}


def bad(text: str) -> Refused:
    """Returns the answer to a body of a wrong form."""
    return Refused(400, f"bad request body: {text}")


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def decode(data: bytes) -> Any:
    """The first JSON value of a body. Raises Refused."""
    try:
        return _DECODER.raw_decode(data.decode().lstrip())[0]
    except (ValueError, RecursionError) as error:
        raise bad(str(error)) from error


def fields_of(found: Any) -> Mapping[str, Any]:
    """An object's fields; those of null are none. Raises Refused."""
    if not isinstance(found, dict | None):
        raise bad("an object is wanted")
    return {key: value for key, value in (found or {}).items() if value is not None}


def list_of(found: Any) -> list[Any]:
    """A list's elements; those of null are none. Raises Refused."""
    if not isinstance(found, list | None):
        raise bad("a list is wanted")
    return found or []


def one_of(found: Mapping[str, Any], key: str, default: _Kind) -> _Kind:
    """Returns the field, which must have the type of its default (text or bool). Raises Refused."""
    value = found.get(key, default)
    if not isinstance(value, type(default)):
        raise bad(f"{key} must be a {type(default).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class ProxyBody:
    """A proxy as a request wants it."""

    name: str
    listen: str
    upstream: str
    enabled: bool


def proxy_body(
    found: Any, *, listen: str = "", upstream: str = "", enabled: bool = True
) -> ProxyBody:
    """Reads a proxy's fields; absent ones are as given here. Raises Refused."""
    fields = fields_of(found)
    return ProxyBody(
        one_of(fields, "name", ""),
        one_of(fields, "listen", listen),
        one_of(fields, "upstream", upstream),
        one_of(fields, "enabled", enabled),
    )


def whole(wanted: ProxyBody, at: str = "") -> ProxyBody:
    """The same, with a name and a target. Raises Refused."""
    for field in ("name", "upstream"):
        if not getattr(wanted, field):
            raise Refused(400, f"missing required field: {field}{at}")
    return wanted
