"""`scripts/rules.py` as a module: it finds citations, and the tests hold them to their targets."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from .source_tree import ROOT


def load() -> ModuleType:
    """The script, executed once."""
    name = "rules_script"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, ROOT / "scripts/rules.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module
