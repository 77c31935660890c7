"""Text or TOML values ⇄ values of a field's annotated type.

    int, float, bool, str, Path, Enum    X | None    tuple[X, ...]    Mapping[str, X]
    tuple[str, int]: an address, "host:port"

As text (environment, flags, broker.conf): "1,2,3" for a tuple, "a=1;b=2" for a mapping, ""
for None.
"""

from __future__ import annotations

import enum
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from commitlog.address import is_address, split_address

TRUE = {"true", "yes", "on", "1"}
FALSE = {"false", "no", "off", "0"}


def convert(value: object, hint: Any) -> object:
    """Read `value` as `hint`. Raises ValueError, which names the expected form."""
    hint = getattr(hint, "__supertype__", hint)  # NewType
    origin = get_origin(hint)
    if origin in {types.UnionType, Union}:
        return _optional(value, hint)
    if origin is tuple and get_args(hint) == (str, int):
        return _address(value)
    if origin is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise ValueError(f"expected a list, got {value!r}")
        inner = get_args(hint)[0]
        return tuple(convert(_strip(part), inner) for part in parts if part != "")
    if origin in {dict, Mapping} or (isinstance(origin, type) and issubclass(origin, Mapping)):
        inner = get_args(hint)[1]
        return {str(key): convert(item, inner) for key, item in _pairs(value).items()}
    return _scalar(value, hint)


def _optional(value: object, hint: Any) -> object:
    inner = [kind for kind in get_args(hint) if kind is not type(None)]
    if value is None or value == "":
        return None
    errors = []
    for kind in inner:
        try:
            return convert(value, kind)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError("; ".join(errors))


def _address(value: object) -> tuple[str, int]:
    if isinstance(value, str) and is_address(value):
        return split_address(value)
    raise ValueError(f'expected "host:port", got {value!r}')


def _pairs(value: object) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(";") if part]
        return {key.strip(): item.strip() for key, _, item in parts}
    raise ValueError(f"expected a table, got {value!r}")


def _scalar(value: object, hint: Any) -> object:
    if hint is bool:
        return _bool(value)
    if hint is int or hint is float:
        return _number(value, hint)
    if hint is str:
        if isinstance(value, str):
            return value
        raise ValueError(f"expected text, got {value!r}")
    if hint is Path:
        if isinstance(value, str | Path):
            return Path(value)
        raise ValueError(f"expected a path, got {value!r}")
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        for member in hint:
            if str(value).lower() in {str(member.value).lower(), member.name.lower()}:
                return member
        names = ", ".join(str(member.value) for member in hint)
        raise ValueError(f"expected one of {names}, got {value!r}")
    raise AssertionError(f"no way to read a setting of type {hint!r}")


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in TRUE | FALSE:
        return value.lower() in TRUE
    raise ValueError(f"expected true or false, got {value!r}")


def _number(value: object, kind: type[int] | type[float]) -> int | float:
    expected = "a whole number" if kind is int else "a number"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected {expected}, got {value!r}")
    if kind is int and isinstance(value, float):
        raise ValueError(f"expected {expected}, got {value!r}")
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"expected {expected}, got {value!r}") from None


def _strip(part: object) -> object:
    return part.strip() if isinstance(part, str) else part


def to_toml(value: object) -> str:
    """The TOML text of a setting's value; there is none for None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return to_toml(value.value)
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 100_000 else str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple) and [type(part) for part in value] == [str, int]:
        return f'"{value[0]}:{value[1]}"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(to_toml(part) for part in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {to_toml(v)}" for k, v in value.items()) + " }"
    assert isinstance(value, str | Path), f"no TOML for {value!r}"
    # A JSON string is a TOML one, but for DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: object) -> str:
    text = str(key)
    return text if text.replace("_", "").replace("-", "").isalnum() else to_toml(text)
