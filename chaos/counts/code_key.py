"""Which code a count is of: one hash for each subsystem, over everything that it imports.

    modules ─► what they import of ours, and so on ─► syntax trees without docstrings ─► SHA-256

| subsystem | begins at | bars that it carries |
|---|---|---|
| `replica` | what chaos.sim imports: rules, log on disk, repair, snapshots | simulated seeds |
| `log` | dledger.runtime: the embedded log with its links and threads | power cuts |
| `broker` | cluster.broker | hours of live faults |

A change of the broker therefore leaves seeds and power cuts in force, and a change of the rules
voids all three. Comments, docstrings and layout may change without starting any count again.
Modules of the judge are followed and not hashed: it may grow stricter.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec, resolve_name
from pathlib import Path

REPLICA, LOG, BROKER = "replica", "log", "broker"
#: Packages and modules at which each subsystem begins; a package stands for all its modules.
ROOTS: Mapping[str, tuple[str, ...]] = {
    REPLICA: ("chaos.sim",),
    LOG: ("dledger.runtime",),
    BROKER: ("cluster.broker",),
}
#: Packages whose modules are hashed, and those that are followed only.
HASHED, FOLLOWED = ("commitlog", "dledger", "cluster"), ("chaos.sim",)
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_key(subsystem: str) -> str:
    """12 hex digits for a subsystem of the code that this process runs."""
    found = imported_by(ROOTS[subsystem])
    hashed = {name: path for name, path in found.items() if _is_in(name, HASHED)}
    return tree_key(hashed)[:12]


def code_keys() -> dict[str, str]:
    """The key of every subsystem."""
    return {subsystem: code_key(subsystem) for subsystem in ROOTS}


def tree_key(modules: Mapping[str, Path]) -> str:
    """Returns a digest of the modules' names and syntax trees, without docstrings."""
    digest = hashlib.sha256()
    for name, path in sorted(modules.items()):
        digest.update(f"{name} {_text_key(path.read_text(encoding='utf-8'))}\n".encode())
    return digest.hexdigest()


def imported_by(roots: Iterable[str]) -> dict[str, Path]:
    """The roots and every module of ours that they import, directly or not, with their files.

    An import inside a function counts. An `__init__.py` counts where a name is taken from the
    package itself; being on the way to a module below it is not enough.
    """
    found: dict[str, Path] = {}
    waiting = [name for root in roots for name in _modules_of(root)]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _file_of(name)
        if path is not None:
            found[name] = path
            waiting += _imports_of(path, name)
    return found


@functools.cache
def _imports_of(path: Path, name: str) -> tuple[str, ...]:
    """The imports of the module `name` in its file, which is parsed once for all subsystems."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return tuple(_imports(ast.parse(path.read_text(encoding="utf-8")), package))


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Names of our modules that a module of `package` imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            named = [_module_of(module, alias.name) for alias in node.names]
        else:
            continue
        yield from (name for name in named if _is_in(name, (*HASHED, *FOLLOWED)))


def _module_of(module: str, name: str) -> str:
    """`from module import name`: the module below it if there is one, else the module itself."""
    if not _is_in(module, (*HASHED, *FOLLOWED)):
        return module
    below = f"{module}.{name}"
    return below if _file_of(below) is not None else module


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@functools.cache
def _file_of(name: str) -> Path | None:
    """The source file of a module or package; None when there is no such module."""
    package, *rest = name.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    base = Path(spec.origin).parent.joinpath(*rest)
    for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
        if path.is_file() and (rest or path.name == "__init__.py"):
            return path
    return None


def _modules_of(root: str) -> Iterator[str]:
    """A module itself; a package, and all modules below it."""
    path = _file_of(root)
    if path is None:
        raise ValueError(f"there is no module {root}; correct ROOTS in chaos/counts/code_key.py")
    yield root
    if path.name == "__init__.py":
        for file in path.parent.rglob("*.py"):
            parts = file.relative_to(path.parent).with_suffix("").parts
            yield ".".join([root, *(part for part in parts if part != "__init__")])


@functools.cache
def _text_key(text: str) -> str:
    """A digest of one module's tree, made once: the subsystems share most of their modules."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
