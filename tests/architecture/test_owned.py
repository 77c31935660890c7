"""In a node, nothing asks the event loop directly: what it calls belongs to the node (owned.py).

A callback or task of asyncio's own swallows what it raises, after a line in the log.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source_tree import Source, sources

#: Ways to have the loop call something later. `wait_for`, `timeout` and `gather` hand it back.
_SCHEDULES = {
    "call_soon",
    "call_soon_threadsafe",
    "call_later",
    "call_at",
    "create_task",
    "ensure_future",
    "add_done_callback",
    "run_coroutine_threadsafe",
    "run_in_executor",
    "TaskGroup",
    "set_exception_handler",
}
_OWNERS = {"owned", "_owned"}
_PACKAGES = ("cluster/broker/", "dledger/runtime/", "dledger/membership/")
_SELF = "dledger/runtime/owned.py"


def _owner(node: ast.expr) -> str:
    """The last name of `a.b.owned`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def around_the_owner(source: Source) -> Iterator[str]:
    """Every place where the loop, or asyncio, is asked for it."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in _SCHEDULES:
            if _owner(node.value) not in _OWNERS:
                yield f"{source.path}:{node.lineno} {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            for alias in node.names:
                if alias.name in _SCHEDULES:
                    yield f"{source.path}:{node.lineno} imports {alias.name}"
        elif isinstance(node, ast.Call) and _owner(node.func) == "getattr":
            for argument in node.args[1:2]:
                if isinstance(argument, ast.Constant) and argument.value in _SCHEDULES:
                    yield f"{source.path}:{node.lineno} gets {argument.value}"


def test_a_node_has_nothing_called_around_its_owner() -> None:
    looked = [one for one in sources() if one.path.startswith(_PACKAGES) and one.path != _SELF]
    assert len(looked) > 50, "the packages are where they were"
    assert [place for source in looked for place in around_the_owner(source)] == []


def test_what_goes_around_the_owner_is_found() -> None:
    text = (
        "loop.call_soon(f)\nasyncio.create_task(g())\nself._loop.call_later(1, f)\n"
        "future.add_done_callback(f)\nfrom asyncio import ensure_future\n"
        "getattr(loop, 'call_at')(1, f)\nself._owned.call_soon(f)\n"
        "services.owned.create_task(g())\n"
    )
    found = list(around_the_owner(Source("x", "x.py", text, ast.parse(text))))
    assert sorted(int(place.split()[0].rpartition(":")[2]) for place in found) == [1, 2, 3, 4, 5, 6]


def test_nothing_in_a_node_only_logs_what_it_caught() -> None:
    """`except Exception` ends the node, costs one connection and is counted, or raises again."""
    wrong = []
    for source in sources():
        if not source.path.startswith((*_PACKAGES, "cluster/core/", "dledger/")):
            continue
        for node in source.nodes:
            if isinstance(node, ast.ExceptHandler) and _catches_all(node):
                text = ast.unparse(ast.Module(node.body, []))
                if not any(word in text for word in _SEEN_TO):
                    wrong.append(f"{source.path}:{node.lineno}")
    assert wrong == []


_SEEN_TO = ("spared(", "died(", "_died(", ".mistake()", "raise", "_fail(", "error = raised")


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or _owner(handler.type) in {"Exception", "BaseException"}
