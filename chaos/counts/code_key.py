"""Which code a count is of: a hash of the rules and of how they reach the disk.

    dledger/core, dledger/storage ─► syntax trees without docstrings ─► SHA-256, 12 hex digits

Comments, docstrings and layout may change without starting the count again; everything else starts
it. Other packages are not in it: what they can break (wire, shell, broker) has bars of its own.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("dledger.core", "dledger.storage")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_key() -> str:
    """Of the code that this process runs."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            digest.update(tree_key(Path(folder).rglob("*.py")).encode())
    return digest.hexdigest()[:12]


def tree_key(paths: Iterable[Path]) -> str:
    """Of some files: their names and what they say to Python."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        digest.update(f"{path.name} {ast.dump(tree)}\n".encode())
    return digest.hexdigest()
