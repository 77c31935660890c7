"""Parameters of a request as an audit entry keeps them: plain JSON, secrets masked, bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

MASK: Final = "***"
SECRET_WORDS: Final = ("secret", "password", "signature", "token")
DEPTH_MAX: Final = 6
ITEMS_MAX: Final = 50
TEXT_LENGTH_MAX: Final = 256


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON: records become objects without absent fields, secrets become `***`."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value[:TEXT_LENGTH_MAX]
    if depth >= DEPTH_MAX:
        return "…"
    if isinstance(value, Enum):
        return plain(value.value, depth)
    if is_dataclass(value) and not isinstance(value, type):
        rows = {one.name: getattr(value, one.name) for one in fields(value)}
        return _object(rows, depth)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _object(value._asdict(), depth)
    if isinstance(value, Mapping):
        return _object(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        items = [plain(one, depth + 1) for one in list(value)[:ITEMS_MAX]]
        return [*items, f"… {len(value)} in all"] if len(value) > ITEMS_MAX else items
    return str(value)[:TEXT_LENGTH_MAX]


def parameters_of(request: Any) -> dict[str, Any]:
    """The parameters of a decoded request; a request that is a list stands under `rows`."""
    value = plain(request)
    return value if isinstance(value, dict) else {} if value is None else {"rows": value}


def shortened(parameters: Mapping[str, Any], bytes_max: int) -> dict[str, Any]:
    """The parameters, without the last ones where they have more bytes of JSON."""
    found: dict[str, Any] = {}
    size = 2
    for name, value in parameters.items():
        size += len(json.dumps({name: value}, ensure_ascii=False).encode("utf-8", "replace"))
        if size > bytes_max:
            found["…"] = f"{len(parameters) - len(found)} more, which are too long"
            break
        found[name] = value
    return found


def _object(row: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in list(row.items())[:ITEMS_MAX]:
        name = str(key)[:TEXT_LENGTH_MAX]
        if value is None:
            continue
        if any(word in name.lower() for word in SECRET_WORDS):
            found[name] = MASK
        else:
            found[name] = plain(value, depth + 1)
    if len(row) > ITEMS_MAX:
        found["…"] = f"{len(row)} in all"
    return found
