"""Walls in the broker: its features stand beside each other on a kernel, and import no other one.

A type counts as an import, too. Loaded alone in a fresh process, a feature brings no other feature
with it, nor the wiring.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .source_tree import ROOT

BROKER = ROOT / "cluster" / "broker"
FEATURES = ("access", "admin", "clients", "consume", "delay", "pop", "produce", "transactions")


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


#: Forks for each feature, with what none of the broker is imported already.
_EACH_ALONE = """
import importlib, json, os, sys
import cluster.core.apply, cluster.security.access_file, dledger.runtime.driver
assert not [name for name in sys.modules if name.startswith("cluster.broker")]
for modules in json.loads(sys.argv[1]).values():
    if not os.fork():
        for name in modules:
            importlib.import_module(name)
        print(*(name for name in sys.modules if name.startswith("cluster.broker.")), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


@pytest.fixture(scope="module")
def loaded_alone() -> dict[str, set[str]]:
    """Feature → modules of the broker that are there when its own are imported."""
    modules = {
        feature: [
            ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for path in sorted((BROKER / feature).rglob("*.py"))
        ]
        for feature in FEATURES
    }
    words = [sys.executable, "-c", _EACH_ALONE, json.dumps(modules)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return {feature: set(line.split()) for feature, line in zip(FEATURES, lines, strict=True)}


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_loaded_alone_brings_no_other(
    feature: str, loaded_alone: dict[str, set[str]]
) -> None:
    loaded = loaded_alone[feature]
    assert f"cluster.broker.{feature}" in loaded
    assert not {_feature_of(module) for module in loaded} - {None, feature}
    assert "cluster.broker.wiring" not in loaded
