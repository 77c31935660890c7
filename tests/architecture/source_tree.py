"""The project's own Python files, parsed once, for the architecture tests."""

from __future__ import annotations

import ast
import functools
import gc
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("commitlog", "dledger", "cluster", "chaos", "pipeline")


@dataclass(frozen=True, slots=True)
class Source:
    """One file: `name` as imported, `path` from the checkout's root."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Everything in the file's tree, as `ast.walk` has it."""
        return nodes_of(self.tree)

    def imports(self) -> tuple[str, ...]:
        """Every module imported anywhere in the file, also inside functions and type checks."""
        return _imports_of(self.tree)


@functools.cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """A tree is walked once, for all tests."""
    return tuple(ast.walk(tree))


@functools.cache
def _imports_of(tree: ast.Module) -> tuple[str, ...]:
    found: list[str] = []
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)


def dotted(node: ast.expr) -> str:
    """The source of an expression; quick for a name and its attributes, which most calls have."""
    parts, inner = list[str](), node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        return ".".join([inner.id, *reversed(parts)])
    return ast.unparse(node)


@functools.cache
def sources() -> tuple[Source, ...]:
    """All files of the packages that ship."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT)
            name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            found.append(Source(name, str(relative), text, ast.parse(text)))
    gc.freeze()  # millions of nodes that stay: no collection need look at them again
    return tuple(found)


@functools.cache
def _by_path() -> dict[str, Source]:
    return {source.path: source for source in sources()}


def nodes_of_file(path: Path) -> tuple[ast.AST, ...]:
    """As `Source.nodes`, of a file that ships."""
    return _by_path()[str(path.relative_to(ROOT))].nodes


def inside(package: str) -> list[Source]:
    """The files of one package or module and everything below it."""
    return [s for s in sources() if s.name == package or s.name.startswith(package + ".")]


@functools.cache
def exceptions() -> dict[str, Any]:
    """Waived rules: rule → what it is waived for → reason or limit."""
    return tomllib.loads((ROOT / "tests/architecture/exceptions.toml").read_text())
