"""Finds where tests wait for time instead of a condition, by their syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .source_tree import ROOT, dotted

# How all others wait, and the tests of that.
EXEMPT = frozenset(
    f"tests/{name}.py" for name in ("waiting", "test_waiting", "virtual_loop", "memory_net")
)
# A long layer may take its time, and time that is virtual is nobody's.
EXEMPT_MARKS = frozenset({"pytest.mark.long", "pytest.mark.virtual_time"})
CLOCKS = frozenset(
    {"monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns", "time_ns"}
)
# Calls whose argument at this place is a number of seconds to wait for.
SECONDS_AT = {"wait_for": 1, "timeout": 0, "timeout_at": 0, "settimeout": 0}
# Every offence has one of these in its text; two files of three have none and need no tree.
_MAY_WAIT = re.compile(
    r"sleep|timeout|wait_for|monotonic|perf_counter|time_ns|\btime\s*\(|\btime\s+import|import\s+time"
    r"|\b(?:wait|join)\s*\([\s(]*[\d.]"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def offences(path: Path) -> list[str]:
    """`line: what`, for each place of the file outside its long tests and those on virtual time."""
    name = str(path.relative_to(ROOT))
    if name in EXEMPT:
        return []
    return found_in(path.read_text(encoding="utf-8"))


def found_in(text: str) -> list[str]:
    """The same of a file's text."""
    return Waits(ast.parse(text)).found if _MAY_WAIT.search(text) else []


class Waits:
    """The offences of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: list[str] = []
        self._functions = dict(_imported_names(tree))
        # Names of limits that went through `limit`, wherever the file assigns them.
        self._limits = {
            target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and _is_scaled(node.value, set())
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if not _is_exempt(tree):
            self._look(tree, frozenset())

    def _look(self, node: ast.AST, clocks: frozenset[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef) and _is_exempt(child):
                continue
            inner = clocks
            if isinstance(child, Function):
                inner = clocks | self._assigned_from_clocks(child)
            if isinstance(child, ast.Call):
                self._look_at_call(child)
            if isinstance(child, ast.Compare) and self._reads_clock(child, inner):
                self._add(child, "compares wall-clock times")
            self._look(child, inner)

    def _add(self, node: ast.expr, what: str) -> None:
        self.found.append(f"{node.lineno}: {what}: {ast.unparse(node)[:80]}")

    def _look_at_call(self, call: ast.Call) -> None:
        called = self._called(call)
        last = called.rpartition(".")[2]
        if called in {"time.sleep", "asyncio.sleep"}:
            if not (call.args and ast.unparse(call.args[0]) == "0"):
                self._add(call, "sleeps")
            return
        waits = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
        # `pytest.mark.timeout` is scaled where the timer is set.
        at = None if called == "pytest.mark.timeout" else SECONDS_AT.get(last)
        if at is not None and len(call.args) > at:
            waits.append(call.args[at])
        if last in {"wait", "join"} and call.args and _is_short(call.args[0]):
            waits.append(call.args[0])
        for seconds in waits:
            if not (_is_none(seconds) or _is_scaled(seconds, self._limits)):
                self._add(call, "has a limit that does not go through `limit`")

    def _called(self, call: ast.Call) -> str:
        """The dotted name of what is called, under the name it was defined with."""
        name = dotted(call.func)
        return self._functions.get(name, name)

    def _is_clock(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        base, _, last = self._called(node).rpartition(".")
        return (base == "time" and last in CLOCKS) or (last == "time" and "loop" in base)

    def _assigned_from_clocks(self, function: Function) -> frozenset[str]:
        return frozenset(
            name.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value
            if any(self._is_clock(part) for part in ast.walk(node.value))
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        )

    def _reads_clock(self, node: ast.AST, names: frozenset[str]) -> bool:
        return any(
            self._is_clock(part) or (isinstance(part, ast.Name) and part.id in names)
            for part in ast.walk(node)
        )


def _is_exempt(node: ast.Module | ast.ClassDef | Function) -> bool:
    """Marked `long` or `virtual_time`: by a decorator, a module by `pytestmark`."""
    if not isinstance(node, ast.Module):
        return any(ast.unparse(mark) in EXEMPT_MARKS for mark in node.decorator_list)
    return any(
        isinstance(line, ast.Assign)
        and ast.unparse(line.targets[0]) == "pytestmark"
        and any(ast.unparse(part) in EXEMPT_MARKS for part in ast.walk(line.value))
        for line in node.body
    )


def _is_short(node: ast.expr) -> bool:
    """A number of seconds; a log's `wait` has larger ones, indexes of entries."""
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value <= 600
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, 0)


def _is_scaled(node: ast.expr, limits: set[str]) -> bool:
    return any(
        (isinstance(part, ast.Call) and dotted(part.func).rpartition(".")[2] == "limit")
        or (isinstance(part, ast.Name) and part.id in limits)
        for part in ast.walk(node)
    )


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`from time import sleep as rest`: rest → time.sleep."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
