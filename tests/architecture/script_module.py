"""Programs of `scripts/` as modules: they count and collect, tests hold the results."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from .source_tree import ROOT


def load(program: str) -> ModuleType:
    """`scripts/<program>.py`, executed once."""
    name = f"script_{program}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{program}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module
