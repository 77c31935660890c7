"""Dataclass ⇄ header fields: how a request's or response's fields are written on the wire.

A field's wire name is its own name in camelCase unless `named(...)` says otherwise. A field without
a default is required. On the wire every value is a text; `decode` reads numbers and
`true/false/1/0`, `encode` leaves out what is None.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from cluster.errors import InvalidRequest

H = TypeVar("H")

TRUE_TEXTS = frozenset({"true", "True", "TRUE", "1"})
"""C++ writes booleans as 1 and 0 (docs/spec/remoting.md 1.1)."""


def named(wire: str, **keywords: Any) -> Any:
    """A field with a wire name that is not its own name in camelCase."""
    return dataclasses.field(metadata={"wire": wire}, **keywords)


class _Field(NamedTuple):
    name: str
    wire: str
    read: Callable[[str], Any]
    required: bool
    default: Any


_plans: dict[type, tuple[_Field, ...]] = {}


def _plan(kind: type) -> tuple[_Field, ...]:
    return _plans.get(kind) or _plans.setdefault(kind, _make_plan(kind))


def _make_plan(kind: type) -> tuple[_Field, ...]:
    assert dataclasses.is_dataclass(kind), f"{kind} is no header"
    readers: dict[str, Callable[[str], Any]] = {"int": read_int, "str": str, "bool": read_bool}
    plan: list[_Field] = []
    for field in dataclasses.fields(kind):
        wire = field.metadata.get("wire") or _camel(field.name)
        reader = readers[str(field.type).removesuffix(" | None")]
        required = field.default is dataclasses.MISSING
        plan.append(_Field(field.name, wire, reader, required, field.default))
    return tuple(plan)


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def read_bool(text: str) -> bool:
    """A boolean field's text."""
    return text in TRUE_TEXTS


def read_int(text: str) -> int:
    """A number's text. Raises ValueError when no long can hold it: others must read it, too."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} is no 64-bit number")
    return number


def decode(kind: type[H], ext: Mapping[str, str]) -> H:
    """The header of that kind from a frame's fields; unknown fields are ignored.

    Raises:
        InvalidRequest: a required field is missing or a number cannot be read.
    """
    values: dict[str, Any] = {}
    for name, wire, read, required, default in _plan(kind):
        text = ext.get(wire)
        if text is None or (text == "" and read is not str):
            if required:
                raise InvalidRequest(f"{kind.__name__} lacks its field {wire}; send it")
            values[name] = default
            continue
        try:
            values[name] = read(text)
        except ValueError:
            raise InvalidRequest(
                f"{kind.__name__}: field {wire} is {text[:40]!r} and must be a 64-bit whole number"
            ) from None
    return kind(**values)


def encode(header: Any) -> dict[str, str]:
    """The frame fields of a header, in its order; None is left out."""
    ext: dict[str, str] = {}
    for name, wire, _, _, _ in _plan(type(header)):
        value = getattr(header, name)
        if value is None:
            continue
        if value is True or value is False:
            ext[wire] = "true" if value else "false"
        else:
            ext[wire] = str(value)
    return ext
