"""Every part of a broker, found by looking: who holds whom, and what each one has in its fields.

walk(parts)            ─► all objects of our classes, through fields, containers, bound methods,
                          closures
fields(part)           ─► name → value, of `__dict__` and of `__slots__` alike
frozen(value)          ─► the same as a value that can be compared later; parts by identity
is_stateful(part)      ─► has a container, or a field that a method of its class sets
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

CONTAINERS = (dict, list, set, deque)
OUR_MODULES = ("cluster.", "dledger.producers")


def is_part(value: object) -> bool:
    """An object of a class of ours that can change; values and exceptions are none."""
    kind = type(value)
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    return (
        kind.__module__.startswith(OUR_MODULES)
        and not isinstance(value, type | tuple | Enum | BaseException)
        and not (frozen and not any(is_part(inner) for inner in fields(value).values()))
    )


def fields(part: object) -> dict[str, Any]:
    found = dict(getattr(part, "__dict__", {}))
    for kind in type(part).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(part, name):
                found[name] = getattr(part, name)
    return found


def inside(value: object) -> Iterator[object]:
    """What a value leads to, one step."""
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list | tuple | AbstractSet | deque):
        yield from value
    elif isinstance(value, MethodType | BuiltinMethodType):
        yield value.__self__
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
    elif is_part(value):
        yield from fields(value).values()


def walk(root: object) -> tuple[list[object], dict[int, set[int]]]:
    """Parts that `root` leads to, and who of them holds whom, by identity."""
    parts: list[object] = []
    holders: dict[int, set[int]] = {}
    seen: set[tuple[int, int]] = set()
    known: set[int] = set()
    keep: list[object] = []  # bound methods are made anew each time: their ids must not come again
    todo: list[tuple[object, int]] = [(root, 0)]
    while todo:
        value, holder = todo.pop()
        if isinstance(value, str | bytes | int | float | type) or value is None:
            continue
        if (id(value), holder) in seen:
            continue
        seen.add((id(value), holder))
        keep.append(value)
        if is_part(value):
            holders.setdefault(id(value), set()).add(holder)
            if id(value) in known:
                continue
            known.add(id(value))
            parts.append(value)
            holder = id(value)
        todo.extend((inner, holder) for inner in inside(value))
    return parts, holders


def frozen(value: object) -> object:
    """Comparable, and unchanged by what happens later."""
    if isinstance(value, Mapping):
        return {key: frozen(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | deque):
        return [frozen(inner) for inner in value]
    if isinstance(value, AbstractSet):
        return set(value)
    if isinstance(value, str | bytes | bytearray | int | float | Enum) or value is None:
        return value
    if isinstance(value, MethodType):
        return ("method", id(value.__self__), value.__name__)
    return (type(value).__name__, id(value))


def snapshot(part: object) -> dict[str, object]:
    return {name: frozen(value) for name, value in fields(part).items()}


@functools.cache
def _set_by_methods(kind: type) -> frozenset[str]:
    """Fields that methods of a class set, its making apart."""
    found: set[str] = set()
    for base in kind.__mro__[:-1]:
        if not base.__module__.startswith(OUR_MODULES):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        for method in ast.walk(tree):
            if not isinstance(method, ast.FunctionDef) or method.name == "__init__":
                continue
            for node in ast.walk(method):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "self"
                ):
                    found.add(node.attr)
    return frozenset(found)


def is_stateful(part: object) -> bool:
    return bool(_set_by_methods(type(part))) or any(
        isinstance(value, CONTAINERS) for value in fields(part).values()
    )


def covered(
    parts: list[object], holders: dict[int, set[int]], named: Callable[[object], bool]
) -> set[int]:
    """Identities of parts that are `named`, or that only such ones hold."""
    found = {id(part) for part in parts if named(part)}
    while more := {
        id(part) for part in parts if id(part) not in found and holders[id(part)] <= found
    }:
        found |= more
    return found
