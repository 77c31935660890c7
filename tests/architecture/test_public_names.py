"""`__all__` and what can be imported are the same."""

from __future__ import annotations

import importlib
import pkgutil
import types

import pytest

from .source_tree import PACKAGES


def packages() -> list[str]:
    """Every package of ours that says what is public."""
    names = list(PACKAGES)
    for package in PACKAGES:
        found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        names += [module.name for module in found if module.ispkg]
    return [name for name in names if hasattr(importlib.import_module(name), "__all__")]


def test_the_facades_say_what_is_public() -> None:
    assert {"commitlog", "dledger", "cluster"} <= set(packages())


@pytest.mark.parametrize("name", packages())
def test_all_is_what_is_importable(name: str) -> None:
    module = importlib.import_module(name)
    listed = set(module.__all__)
    assert len(listed) == len(module.__all__), "a name is listed twice"
    missing = {public for public in listed if not hasattr(module, public)}
    assert not missing, f"{name}.__all__ names what it does not have: {missing}"
    visible = {
        public
        for public, value in vars(module).items()
        if not public.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").partition(".")[0] in PACKAGES
    }
    assert visible <= listed, f"{name} shows names that __all__ does not: {visible - listed}"
