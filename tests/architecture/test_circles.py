"""No circle of files: files that import each other can only be read, tested and changed as one.

Two graphs are looked at: imports that happen at run time (also those inside functions), and the
same with the imports below `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast

import pytest

from .import_graph import circles, graph
from .source_tree import Source, sources


@pytest.mark.parametrize("kind", ["run_time", "types"])
def test_files_that_import_each_other_do_not_exist(kind: str) -> None:
    found = circles(graph(sources(), types=kind == "types"))
    assert not found, f"{found}: move the shared part into a file of its own that both import"


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
