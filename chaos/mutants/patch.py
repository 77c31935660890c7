"""Take one rule out of a module while it is imported; files are never touched."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType, ModuleType
from typing import NamedTuple

from chaos.mutants.twin import Twin, swapped_source


class Patch(NamedTuple):
    """In `module`, `old` stands exactly once and is replaced by `new`."""

    module: str
    old: str
    new: str


def one_patch(module: str, old: str, new: str) -> tuple[Patch, ...]:
    """The patches of a mutant that has one."""
    return (Patch(module, old, new),)


class PatchDoesNotFit(Exception):
    """The source has changed: the table must be brought up to date."""


def patched_source(patch: Patch | Twin, source: str) -> str:
    """The module's text with the rule taken out. Raises PatchDoesNotFit, TwinDoesNotFit."""
    if isinstance(patch, Twin):
        return swapped_source(patch, source)
    found = source.count(patch.old)
    if found != 1:
        raise PatchDoesNotFit(f"in {patch.module} this stands {found} times:\n{patch.old}")
    return source.replace(patch.old, patch.new)


def source_of(module: str) -> str:
    """Text of a module, without importing it (its packages are imported)."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise PatchDoesNotFit(f"there is no module {module}")
    with open(spec.origin, encoding="utf-8") as file:
        return file.read()


#: A module's text → the text that is compiled in its place.
Change = Callable[[str], str]


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed text; never reads or writes a cached file."""

    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        source = self._change(self.get_data(self.path).decode())
        code: CodeType = compile(source, self.path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, changes: Mapping[str, Change]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = self._changes.get(fullname)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        return importlib.util.spec_from_loader(
            fullname, _Loader(fullname, spec.origin, change), origin=spec.origin
        )


def install(patches: Sequence[Patch | Twin]) -> None:
    """From now on these modules are imported patched; none of them may be imported yet."""
    by_module: dict[str, list[Patch | Twin]] = {}
    for patch in patches:
        by_module.setdefault(patch.module, []).append(patch)
    install_changes({module: partial(_patched, mine) for module, mine in by_module.items()})


def install_changes(changes: Mapping[str, Change]) -> None:
    """The same, by any change of a module's text."""
    for module in changes:
        assert module not in sys.modules, f"{module} is imported already"
    sys.meta_path.insert(0, _Finder(changes))


def _patched(patches: Sequence[Patch | Twin], source: str) -> str:
    for patch in patches:
        source = patched_source(patch, source)
    return source
