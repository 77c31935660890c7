"""Checks the values of a settings file against fields of dataclasses before a run starts."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


def check_known(said: str, names: Collection[str], known: Collection[str]) -> None:
    """Raises ValueError for a name that is not in `known`; suggests the most similar known name.

    Args:
        said: beginning of the error text, before the name, as in "[run] has no".
    """
    for name in sorted(set(names) - set(known)):
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{said} {name}; {meant}known: {', '.join(known)}")


def check_types(section: str, values: Mapping[str, Any], cls: type) -> None:
    """Raises ValueError for a value that its field of the dataclass `cls` cannot hold.

    Numbers must be finite and not below zero, as no setting of a run has a use for others. Fields
    of types that are not in `_WORDS` are checked by the code that reads them.
    """
    kinds = {one.name: str(one.type) for one in fields(cls)}
    for name, value in values.items():
        kind = kinds.get(name, "")
        if kind in _WORDS and not _is(kind, value):
            raise ValueError(f"[{section}] {name} is {value!r} and must be {_WORDS[kind]}")
        if kind in ("int", "float") and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"[{section}] {name} is {value!r} and must be 0 or more, and finite")


def _is(kind: str, value: object) -> bool:
    if kind == "bool" or isinstance(value, bool):  # True is an int to Python
        return kind == "bool" and isinstance(value, bool)
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, int | float if kind == "float" else int)


def as_table(section: str, value: object) -> dict[str, Any]:
    """The section as a dict; raises ValueError when `value` is none."""
    if not isinstance(value, dict):
        raise ValueError(f"{section} is {value!r} and must be a section, [{section}]")
    return dict(value)


def as_names(name: str, value: object) -> list[str]:
    """`value` as a list of names; raises ValueError when it is not one."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(
            f'{name} is {value!r} and must be a list of names, as in ["kill", "pause"]'
        )
    return value
