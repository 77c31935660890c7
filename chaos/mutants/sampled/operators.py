"""The changes that a program can make to a line of Python.

    a < b          a <= b, and the other comparisons: == != is in
    a and b        a or b
    not a          a
    if a           if not (a); the same for `while` and the conditional expression
    a + b          a - b; & and | likewise
    3, True        4, False
    self.a = b     pass; the same for a call whose value nobody takes, `del`, `+=` and `raise`

Texts are left alone: what an exception, an f-string or a log line says is no rule. So are
annotations, decorators, `__repr__` and `__str__`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_SPOKEN = ("log", "_log", "logger", "_logger", "LOG", "_LOG", "LOGGER", "_LOGGER")


class Change(NamedTuple):
    """Bytes `begin` to `end` of a source file become `new`.

    Attributes:
        line: of the file, from 1, on which they begin.
        what: the change in words: "drop the statement", "< becomes <=".
    """

    line: int
    begin: int
    end: int
    new: str
    what: str

    def applied(self, source: str) -> str:
        """The whole file with the change made."""
        data = source.encode()
        return (data[: self.begin] + self.new.encode() + data[self.end :]).decode()


def changes(source: str) -> list[Change]:
    """Every change that the file offers, in the order of its lines."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, new, what in _offered(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        found.append(Change(node.lineno, begin, end, new, what))
    return sorted(found)


_Offer = tuple[ast.expr | ast.stmt, str, str]


def _offered(node: ast.AST) -> Iterator[_Offer]:
    """Yields the changes that a node and its descendants allow."""
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    elif isinstance(node, ast.expr):
        yield from _of_expression(node)
    for child in _rules_of(node):
        yield from _offered(child)


def _rules_of(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that are rules, not texts or types."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return []
    if isinstance(node, ast.Expr) and (_is_text(node.value) or _is_spoken(node.value)):
        return []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [] if node.name in ("__repr__", "__str__") else [*node.body, *node.args.defaults]
    if isinstance(node, ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value is not None else []
    if isinstance(node, ast.Assert):
        return [node.test]
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return []
    return list(ast.iter_child_nodes(node))


def _of_statement(node: ast.stmt) -> Iterator[_Offer]:
    call = isinstance(node, ast.Expr) and isinstance(
        node.value.value if isinstance(node.value, ast.Await) else node.value, ast.Call
    )
    dropped = call and isinstance(node, ast.Expr) and not _is_spoken(node.value)
    kept = isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets
    )
    if dropped or kept or isinstance(node, ast.AugAssign | ast.Delete | ast.Raise):
        yield node, "pass", "drop the statement"
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
        yield node.test, f"(not ({ast.unparse(node.test)}))", "turn the condition"


def _of_expression(node: ast.expr) -> Iterator[_Offer]:
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            if other := _COMPARED.get(type(operator)):
                made = copy.deepcopy(node)
                made.ops[number] = other()
                yield node, f"({ast.unparse(made)})", _what(operator, made.ops[number])
    elif isinstance(node, ast.BoolOp):
        turned: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        made_bool = ast.BoolOp(turned, node.values)
        yield node, f"({ast.unparse(made_bool)})", _what(node.op, turned)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"({ast.unparse(node.operand)})", "drop not"
    elif isinstance(node, ast.BinOp) and (counted := _COUNTED.get(type(node.op))):
        made_bin = ast.BinOp(node.left, counted(), node.right)
        yield node, f"({ast.unparse(made_bin)})", _what(node.op, made_bin.op)
    elif isinstance(node, ast.IfExp):
        yield node.test, f"(not ({ast.unparse(node.test)}))", "turn the condition"
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)


def _of_constant(node: ast.Constant) -> Iterator[_Offer]:
    if isinstance(node.value, bool):
        yield node, str(not node.value), f"{node.value} becomes {not node.value}"
    elif isinstance(node.value, int):
        yield node, f"({node.value + 1})", f"{node.value} becomes {node.value + 1}"


def _what(old: ast.AST, new: ast.AST) -> str:
    return f"{type(old).__name__} becomes {type(new).__name__}"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_spoken(node: ast.expr) -> bool:
    """Whether it is a call of a log."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name in _SPOKEN
