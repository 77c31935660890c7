"""What a state holds, all of it: fields are found by looking, at any depth, and never listed.

    difference(a, b)   paths of whatever differs between two objects, [] when nothing does

A field that nobody thought of is a difference. What may differ stands here, with its reason.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from tests.cluster.broker.parts_found import fields

_COUNTS = "counts what this process has seen, to know when an export is due"
#: Class and field → why two states of one log may differ in it.
DIFFER = {
    "AccountTable.accounts": "read from the rows",
    "AccountTable._watchers": "parts of this process",
    "SettingsTable._watchers": "parts of this process",
    "DelayedTable._heaps": "a leader takes from it; what waits is in `_waiting`",
    "HalfTable._heap": "a leader takes from it; what waits is in `_waiting`",
    "HeldTable._due": "a leader takes from it, and makes it anew when a leadership begins",
    "DelayedTable.changes": _COUNTS,
    "HalfTable.changes": _COUNTS,
    "OrderTable.changes": _COUNTS,
    "PopFold.changes": _COUNTS,
    "RequestModeTable.changes": _COUNTS,
}
#: Class and field of a dict whose order means nothing: asked by key, or shown sorted.
UNORDERED = {
    "GroupTable._rows",
    "HeldTable._unacked",
    "LockTable._rows",
    "OrderRow.visible_ms",
    "RequestModeTable._rows",
    "Shares._owners",
    "TopicTable._rows",
    "Producer.streams",
}
_ORDER = "in this order"
_FIELD = re.compile(r"_?[A-Z]\w*\.\w+")


def contents(value: Any, but: Container[str] = DIFFER, *, ordered: bool = True) -> Any:
    """Dicts, lists and plain values that say everything that is in it; methods say nothing.

    `but`: fields that are left out.
    """
    if isinstance(value, Mapping):
        found = {_key(key): contents(inner, but, ordered=ordered) for key, inner in value.items()}
        if ordered or isinstance(value, OrderedDict):
            found[_ORDER] = list(found)
        return found
    if isinstance(value, AbstractSet):
        return sorted(map(repr, value))
    if isinstance(value, int | float | str | bytes | Enum) or value is None:
        return value
    if isinstance(value, FunctionType | MethodType | BuiltinMethodType):
        return None
    if isinstance(value, list | deque) or (type(value) is tuple):
        return [contents(inner, but, ordered=ordered) for inner in value]
    name = type(value).__name__
    return {
        field: contents(inner, but, ordered=field not in UNORDERED)
        for field, inner in ((f"{name}.{field}", inner) for field, inner in _fields(value).items())
        if field not in but
    }


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "_fields", None)  # of a named tuple
    return fields(value) if names is None else {name: getattr(value, name) for name in names}


def _key(key: Any) -> Any:
    return key if isinstance(key, str | bytes | int) else repr(key)


def difference(one: Any, other: Any, but: Iterable[str] = ()) -> list[str]:
    """`but`: more fields that may differ."""
    out = {*DIFFER, *but}
    return differs(contents(one, out), contents(other, out))


def differs(one: Any, other: Any) -> list[str]:
    """The same of the `contents` of two objects: of one that many are compared with, once."""
    return _difference(one, other, "")


def values_of(found: Any) -> dict[str, set[str]]:
    """Class and field → the values that it has somewhere in `contents`."""
    seen: dict[str, set[str]] = {}
    todo = [found]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(name, str) and _FIELD.fullmatch(name):
                    seen.setdefault(name, set()).add(repr(inner))
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return seen


def _difference(one: Any, other: Any, path: str) -> list[str]:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [f"{path}: {str(one)[:200]} is not {str(other)[:200]}"]
    found = [f"{path}/{key}: only in one" for key in one.keys() ^ other.keys()]
    for key in one.keys() & other.keys():
        found += _difference(one[key], other[key], f"{path}/{key}")
    return sorted(found)
