"""No circle of files: files that import each other can only be read, tested and changed as one.

Two graphs are looked at: imports that happen at run time (also those inside functions), and the
same with the imports below `TYPE_CHECKING`. `exceptions.toml` says how many files of a folder
still lie in a circle, and why; the number may only fall.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter

import pytest

from .import_graph import circles, graph
from .source_tree import Source, exceptions, sources


@functools.cache
def files_in_circles(*, types: bool) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(circle) for circle in circles(graph(sources(), types=types)))


def folder(module: str) -> str:
    """The folder of a module, as `exceptions.toml` names it: `cluster.client`."""
    return module.rpartition(".")[0]


@pytest.mark.parametrize("kind", ["run_time", "types"])
def test_files_in_circles_only_become_fewer(kind: str) -> None:
    found = files_in_circles(types=kind == "types")
    counted = Counter(folder(module) for circle in found for module in circle)
    waived = exceptions().get("circles", {}).get(kind, {})
    grown = {name: n for name, n in counted.items() if n > waived.get(name, {}).get("files", 0)}
    assert not grown, (
        f"these folders have more files that import each other than before: {grown}. Circles: "
        f"{found}. Move the shared part into a file of its own that both import"
    )
    fallen = {name: counted[name] for name, e in waived.items() if counted[name] < e["files"]}
    assert not fallen, f"fewer files lie in circles now: write the number down: {fallen}"
    assert all(entry["reason"] for entry in waived.values())


def module_of(name: str, text: str) -> Source:
    return Source(name, name.replace(".", "/") + ".py", text, ast.parse(text))


def test_a_circle_of_types_is_found_and_none_at_run_time() -> None:
    files = [
        module_of(
            "p.a", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import b\n"
        ),
        module_of("p.b", "from p.a import thing\n"),
        module_of("p.c", "import p.a\n"),
    ]
    assert circles(graph(files, types=False)) == []
    assert circles(graph(files, types=True)) == [["p.a", "p.b"]]


def test_a_circle_through_an_import_inside_a_function_is_found() -> None:
    files = [
        module_of("p.a", "def f():\n    from p.b import g\n"),
        module_of("p.b", "import p.c\n"),
        module_of("p.c", "from p import a\n"),
    ]
    assert circles(graph(files, types=False)) == [["p.a", "p.b", "p.c"]]
