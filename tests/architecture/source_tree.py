"""The project's own Python files, parsed once, for the architecture tests."""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator
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

    def imports(self) -> Iterator[str]:
        """Every module imported anywhere in the file, also inside functions and type checks."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


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
    return tuple(found)


def inside(package: str) -> list[Source]:
    """The files of one package or module and everything below it."""
    return [s for s in sources() if s.name == package or s.name.startswith(package + ".")]


@functools.cache
def exceptions() -> dict[str, Any]:
    """Waived rules: rule → what it is waived for → reason or limit."""
    return tomllib.loads((ROOT / "tests/architecture/exceptions.toml").read_text())
