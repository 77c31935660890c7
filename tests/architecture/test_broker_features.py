"""Walls in the broker: its features stand beside each other on a kernel, and import no other one.

A type counts as an import, too. Loaded alone in a fresh process, a feature brings no other feature
with it, nor the wiring.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from .source_tree import ROOT

BROKER = ROOT / "cluster" / "broker"
FEATURES = ("admin", "consume", "delay", "pop", "produce", "transactions")


def _imported(path: Path) -> set[str]:
    """Modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _feature_of(module: str) -> str | None:
    parts = module.split(".")
    known = parts[:2] == ["cluster", "broker"] and len(parts) > 2 and parts[2] in FEATURES
    return parts[2] if known else None


def _pairs() -> set[tuple[str, str]]:
    return {
        (feature, other)
        for feature in FEATURES
        for path in (BROKER / feature).rglob("*.py")
        for other in map(_feature_of, _imported(path))
        if other not in (None, feature)
    }


def test_no_feature_imports_another_one() -> None:
    assert not sorted(_pairs())


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_loaded_alone_brings_no_other(feature: str) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((BROKER / feature).rglob("*.py"))
    ]
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(*(name for name in sys.modules if name.startswith('cluster.broker.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert f"cluster.broker.{feature}" in loaded
    assert not {_feature_of(module) for module in loaded} - {None, feature}
    assert "cluster.broker.wiring" not in loaded
