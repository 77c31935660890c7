"""Tables of the broker's state are changed by `replay…` alone, which only applied records call.

A table is found by looking into an `AppliedState`. Its public methods are of three kinds:

    replay…     changes the table by a record that is committed: live, while a log is loaded, after
                a checkpoint
    restore…    takes over a checkpoint
    all others  change nothing, or a field of SOFT: of one leadership, and in no checkpoint

A request's handler reads tables and decides (test_handlers_decide.py). It calls no method of the
first two kinds, assigns nothing of a state, and changes no dict or list in one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cluster.core.apply import AppliedState

from .source_tree import Source, dotted, nodes_of, sources

#: Class and field → why a method that is no replay may change it.
SOFT = {
    "AccountTable._watchers": "parts of this process that hear of changes",
    "SettingsTable._watchers": "parts of this process that hear of changes",
    "DelayedTable._heaps": "in which order a leader takes what waits",
    "HalfTable._heap": "in which order a leader takes what waits",
    "HeldTable._due": "in which order a leader takes what waits",
    "ProducerTable._overlay": "numbers that are logged and not applied, dropped with a leadership",
}
#: `ProducerTable` belongs to the log, where a committed entry is the machine's own call.
REPLAYS = {"ProducerTable": {"committed", "owned"}, "AppliedState": {"apply"}}
#: Files outside cluster.core that change or fill a state → how.
APPLY_PATH = {
    "cluster/broker/kernel/apply/derived.py": "applies committed entries; loads the checkpoint",
    "cluster/broker/kernel/apply/log_beginning.py": "loads the state of a deleted beginning",
    "cluster/move/exported_state.py": "no broker: fills a state of its own from a stopped store",
}
#: Methods of dicts, lists, sets and heaps that change them.
CHANGING = frozenset(
    {
        *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
        *("insert", "move_to_end", "pop", "popitem", "popleft", "remove", "setdefault", "sort"),
        *("update", "heappush", "heappop", "heapify", "intersection_update"),
    }
)


def _tables() -> set[str]:
    """Names of the classes of a state's tables, at any depth, its own included."""
    found, left = set[str](), list[object]([AppliedState(())])
    while left:
        one = left.pop()
        kind = type(one)
        if kind.__name__ not in found and kind.__module__.startswith(
            ("cluster.core.", "dledger.producers.table")
        ):
            found.add(kind.__name__)
            left += getattr(one, "__dict__", {}).values()
    return found - {"CheckRule", "DataVersion"}  # values


def _root(node: ast.expr, names: dict[str, set[str]]) -> set[str]:
    """Fields of `self` that an expression is, or is a part of."""
    while True:
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                return {node.attr}
            node = node.value
        elif isinstance(node, ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                node = node.func.value
            else:  # enumerate(self._heaps), list(self._rows.items())
                return set().union(*(_root(one, names) for one in node.args))
        elif isinstance(node, ast.BoolOp):
            return set().union(*(_root(one, names) for one in node.values))
        else:
            return names.get(node.id, set()) if isinstance(node, ast.Name) else set()


def _is_copy(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name)


def _bind(target: ast.expr, value: ast.expr, names: dict[str, set[str]]) -> None:
    """Remember which fields a local name stands for."""
    if isinstance(target, ast.Name):
        names.setdefault(target.id, set()).update(_root(value, names))
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for one, its in zip(target.elts, values, strict=False):
            _bind(one, its, names)


def _stored(target: ast.expr) -> Iterator[ast.expr]:
    """Attributes and items that an assignment stores into."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _stored(one)
    elif isinstance(target, ast.Attribute | ast.Subscript):
        yield target


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            yield from _stored(target)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield from _stored(node.target)


def _is_heap(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and dotted(func.value) == "heapq"


def changed_fields(method: ast.FunctionDef, of_class: dict[str, ast.FunctionDef]) -> set[str]:
    """Fields of `self` that the method changes, also by private methods and through local names."""
    names, found = dict[str, set[str]](), set[str]()
    for node in ast.walk(method):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if not _is_copy(node.value):
                    _bind(target, node.value, names)
        elif isinstance(node, ast.For | ast.comprehension):
            _bind(node.target, node.iter, names)
    for node in ast.walk(method):
        for target in _targets(node):
            found |= _root(target, names)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, node.func.value
        if _is_heap(node.func):
            found |= _root(node.args[0], names)
        elif isinstance(owner, ast.Name) and owner.id == "self":
            inner = of_class.get(name)
            if inner is not None and inner is not method:
                found |= changed_fields(inner, of_class)
        elif name in CHANGING or name.startswith("replay"):
            found |= _root(owner, names)
    return found


def wrong_methods(tree: ast.Module, tables: set[str]) -> list[str]:
    """Public methods that change what only records may change."""
    found = []
    for kind in nodes_of(tree):
        if not isinstance(kind, ast.ClassDef) or kind.name not in tables:
            continue
        of_class = {one.name: one for one in kind.body if isinstance(one, ast.FunctionDef)}
        for name, method in of_class.items():
            if name.startswith(("_", "replay", "restore")) or name in REPLAYS.get(kind.name, ()):
                continue
            fields = changed_fields(method, of_class)
            found += [
                f"{kind.name}.{name} changes {field}"
                for field in sorted(fields)
                if f"{kind.name}.{field}" not in SOFT
            ]
    return found


def _is_of_a_state(text: str) -> bool:
    return not {"state", "_state"}.isdisjoint(text.split(".")[:-1])


def wrong_calls(tree: ast.Module) -> list[str]:
    """Places where code outside the apply path changes a table of a state."""
    found = []
    for node in nodes_of(tree):
        found += [
            f"line {node.lineno}: sets {text}"  # type: ignore[attr-defined]
            for text in map(dotted, _targets(node))
            if _is_of_a_state(text) and text.removeprefix("self.").count(".")
        ]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, text = node.func.attr, dotted(node.func)
            changes = name in CHANGING or name in ("restore", "apply")
            if name.startswith("replay") or (changes and _is_of_a_state(text)):
                found.append(f"line {node.lineno}: calls {text}")
    return found


def _outside() -> list[Source]:
    return [
        one
        for one in sources()
        if one.path.startswith(("cluster/", "pipeline/"))
        and not one.path.startswith("cluster/core/")
        and one.path not in APPLY_PATH
    ]


def test_tables_are_changed_by_replay_alone() -> None:
    tables = _tables()
    assert {"TopicTable", "GroupTable", "OffsetTable", "HeldTable", "ProducerTable"} <= tables
    parts = [
        one for one in sources() if one.path.startswith(("cluster/core/", "dledger/producers"))
    ]
    defined = {node.name for one in parts for node in one.nodes if isinstance(node, ast.ClassDef)}
    assert tables <= defined
    assert [text for one in parts for text in wrong_methods(one.tree, tables)] == []


def test_soft_fields_are_fields_of_tables() -> None:
    tables = _tables()
    assert {name.split(".")[0] for name in SOFT} <= tables


def test_only_the_apply_path_changes_a_state() -> None:
    found = {one.path: wrong_calls(one.tree) for one in _outside()}
    assert {path: places for path, places in found.items() if places} == {}, (
        "propose a record with StateWriter instead, which `AppliedState` replays"
    )


def test_each_file_of_the_apply_path_needs_its_exception() -> None:
    by_path = {one.path: one for one in sources()}
    assert [path for path in APPLY_PATH if not wrong_calls(by_path[path].tree)] == []


def test_a_method_that_changes_a_table_is_found() -> None:
    tree = ast.parse(
        "class TopicTable:\n"
        "    def put(self, row):\n        rows = self._rows\n        rows[row.name] = row\n"
        "    def forget(self):\n        self._forget()\n"
        "    def _forget(self):\n        for row in self._ends.values():\n            row.clear()\n"
        "    def count(self):\n        self.changes += 1\n"
        "    def replay(self, row):\n        self._rows.pop(row)\n"
        "    def get(self, name):\n        return self._rows.get(name)\n"
        "class HeldTable:\n"
        "    def take(self):\n        heapq.heappop(self._due)\n"
    )
    assert wrong_methods(tree, {"TopicTable", "HeldTable"}) == [
        "TopicTable.put changes _rows",
        "TopicTable.forget changes _ends",
        "TopicTable.count changes changes",
    ]


def test_a_handler_that_changes_a_table_is_found() -> None:
    tree = ast.parse(
        "def create_topic(ports, call, request):\n"
        "    ports.state.topics.replay_put(request.row, 0)\n"
        "    ports.state.log_start = 7\n"
        "    ports.state.offsets.rows['g'].pop('t')\n"
        "    table = ports.state.delayed\n"
        "    table.replay_settled(0, None)\n"
        "    state = ports.state\n"
        "    row = state.topics.get(request.topic)\n"
    )
    found = sorted(wrong_calls(tree))
    assert [text.split(":")[0] for text in found] == ["line 2", "line 3", "line 4", "line 6"]
