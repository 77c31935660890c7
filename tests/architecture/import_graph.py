"""Which file of the project imports which, and the circles in that graph."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping

from .source_tree import Source

Graph = Mapping[str, set[str]]


@functools.cache
def imports_of(tree: ast.Module, *, types: bool) -> tuple[tuple[str, str], ...]:
    """Pairs (module, name) of every import, also of those inside functions.

    `from a import b` gives `("a", "b")`, `import a` gives `("a", "")`. Without `types`, imports
    below `if TYPE_CHECKING:` are left out: they do not happen at run time.
    """
    found: list[tuple[str, str]] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types:
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found += ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += ((node.module, alias.name) for alias in node.names)
        elif not isinstance(node, ast.expr):  # an import is a statement: none is in an expression
            todo.extend(ast.iter_child_nodes(node))
    return tuple(found)


def graph(files: Iterable[Source], *, types: bool) -> Graph:
    """Module → the modules it imports. `__init__` files are left out: they only hand on names."""
    found = [s for s in files if not s.path.endswith("__init__.py")]
    names = {s.name for s in found}
    edges: dict[str, set[str]] = {}
    for source in found:
        wanted = {
            target
            for module, name in imports_of(source.tree, types=types)
            for target in (f"{module}.{name}", module)
            if target in names
        }
        edges[source.name] = wanted - {source.name}
    return edges


def circles(edges: Graph) -> list[list[str]]:
    """Sets of modules that all reach each other (strongly connected), each sorted by name."""
    reached = {name: reachable(edges, name) for name in edges}
    left, found = set(edges), []
    for name in sorted(edges):
        if name in left:
            members = {other for other in reached[name] if name in reached[other]} | {name}
            left -= members
            if len(members) > 1:
                found.append(sorted(members))
    return found


def reachable(edges: Graph, start: str) -> set[str]:
    """Every module that `start` imports directly or through others."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        for target in edges[todo.pop()]:
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen
