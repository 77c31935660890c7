"""Every text of an error that people read, as the source has it.

A text is "what happened; one thing to try" (`commitlog/advice.py`). Braces stand for a value
of the moment; a text that is made elsewhere is None.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from .source_tree import nodes_of, sources

BASE = "Advised"
#: click's own base: its errors are one of ours, or name `--help` above them.
COMMAND_ERROR = "CommandError"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """One place that makes an error: its class, where, and its text."""

    kind: str
    place: str
    text: str | None


@cache
def trees() -> dict[str, ast.Module]:
    """All modules of ours by path."""
    return {source.path: source.tree for source in sources()}


@cache
def bases() -> dict[str, tuple[str, ...]]:
    """Class → names of its bases, over all packages; classes of one name are taken together."""
    found: dict[str, tuple[str, ...]] = {}
    for tree in trees().values():
        for node in nodes_of(tree):
            if isinstance(node, ast.ClassDef):
                names = [_last_name(base) for base in node.bases]
                found[node.name] = (*found.get(node.name, ()), *names)
    return found


def is_a(kind: str, ancestor: str) -> bool:
    """Does a class descend from another, by name?"""
    return kind == ancestor or any(
        is_a(base, ancestor) for base in bases().get(kind, ()) if base != kind
    )


@cache
def _own_advice() -> dict[str, str]:
    """Class → the `advice` that its body sets."""
    return {
        node.name: text
        for tree in trees().values()
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None
        for target in (line.targets if isinstance(line, ast.Assign) else [line.target])
        if _last_name(target) == "advice" and (text := _text(line.value)) is not None
    }


def advice_of(kind: str) -> str:
    """What a class tells its reader to try, its own or its base's; "" for nothing."""
    found = _own_advice().get(kind)
    if found is not None:
        return found
    return next((said for base in bases().get(kind, ()) if (said := advice_of(base))), "")


def texts() -> Iterator[ErrorText]:
    """Of all errors that derive from `Advised`, and of commands."""
    for path, tree in trees().items():
        for node in nodes_of(tree):
            if not isinstance(node, ast.Call) or not (node.args or node.keywords):
                continue
            kind = _last_name(node.func)
            if kind in bases() and (is_a(kind, BASE) or kind == COMMAND_ERROR):
                text = _text(node.args[0]) if node.args else None
                yield ErrorText(kind, f"{path}:{node.lineno}", text)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
    )
