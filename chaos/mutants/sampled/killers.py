"""The tests that look at a module: those that import it first, then those of its neighbours.

A change is made while a module is imported (chaos/mutants/patch.py), so tests whose subject runs in
a process of its own are no killers, though `scripts/test` has them as well: what is told is a lower
bound.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from chaos.mutants.sampled.draw import ROOT

#: Folders of tests whose subject runs in the test's own process, quick ones first. None of them
#: looks at the machine's speed, so that a busy machine kills nothing.
FOLDERS = (
    "tests/cluster/core",
    "tests/dledger",
    "tests/paper",
    "tests/cluster/broker",
    "tests/scenarios",
    "tests/defects",
    "tests/chaos/sim",
)


def importers(module: str) -> list[str]:
    """Test files that import the module, or a name of it, themselves; small ones first."""
    found = [path for path in _tests() if module in _imported(path)]
    return [str(path.relative_to(ROOT)) for path in sorted(found, key=lambda p: p.stat().st_size)]


def folders(module: str) -> list[str]:
    """Folders of tests to be asked behind those; the module's own layer comes first."""
    own = f"tests/{module.partition('.')[0]}"
    existing = [folder for folder in FOLDERS if (ROOT / folder).is_dir()]
    return sorted(existing, key=lambda folder: not folder.startswith(own))


@functools.cache
def _tests() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("test_*.py"))]


@functools.cache
def _imported(path: Path) -> frozenset[str]:
    """Absolute modules that a file imports, and each name of them as if it were one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)
