"""No part of the broker is set into another part after that one was made.

A part gets what it needs when it is made, or registers a listener. Setting a field later hides an
argument: the part works or not, depending on a line that stands elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .source_tree import ROOT

BROKER = ROOT / "cluster" / "broker"
#: Files that make parts and connect them.
WIRING = sorted(
    {
        *(BROKER / name for name in ("components.py", "node.py", "reactions.py", "wiring.py")),
        *BROKER.glob("*/feature.py"),
    }
)
#: File → fields that its makers set, each with the reason. No other one may come.
KNOWN = {
    # dledger's table of producers has one listener; the applied state makes the table earlier.
    "cluster/broker/kernel/write/dedup.py": ["table.forgot"],
}


def _targets(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes that are assigned, also within tuples."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def set_later(text: str) -> list[str]:
    """Attributes of other objects than `self` that a file of the wiring assigns."""
    return [
        ast.unparse(target)
        for target in _targets(ast.parse(text))
        if not (isinstance(target.value, ast.Name) and target.value.id == "self")
    ]


def set_by_maker(text: str) -> list[str]:
    """Attributes of its own arguments that an `__init__` assigns."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            given = {argument.arg for argument in (*node.args.args[1:], *node.args.kwonlyargs)}
            for target in _targets(node):
                base: ast.expr = target.value
                while isinstance(base, ast.Attribute):
                    base = base.value
                if isinstance(base, ast.Name) and base.id in given:
                    found.append(ast.unparse(target))
    return found


@pytest.mark.parametrize("path", WIRING, ids=lambda path: str(path.relative_to(BROKER)))
def test_wiring_sets_nothing_into_a_part(path: Path) -> None:
    assert not set_later(path.read_text("utf-8"))


def test_no_maker_sets_a_field_of_its_arguments() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted(BROKER.rglob("*.py"))
        if (names := set_by_maker(path.read_text("utf-8")))
    }
    assert found == KNOWN


def test_a_field_that_is_set_later_is_found() -> None:
    """The cases that stood here before."""
    assert set_later("derived.eager = lambda: False") == ["derived.eager"]
    assert set_later("parts.polls.leads = parts.pop.leads = f") == [
        "parts.polls.leads",
        "parts.pop.leads",
    ]
    assert set_later("self.a, self.b = 1, 2") == []
    text = "class R:\n def __init__(self, links, *, ports):\n  links.again = self.f\n"
    assert set_by_maker(text + "  ports.derived.room.told = self.g\n") == [
        "links.again",
        "ports.derived.room.told",
    ]
