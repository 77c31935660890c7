"""A rule that is a function of its own, and the wrong twin that is swapped in for it.

    Twin("dledger.core.membership", "may_vote", may_vote_if_named)

The twin is an ordinary function in `chaos/mutants/twins`, so types and style are checked there as
anywhere; its body is put under the rule's own first line while the module is imported, and names in
it are the rule's module's. Unlike an excerpt it goes on fitting when the rule's text changes, as
long as the function has its name and parameters.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple


class TwinDoesNotFit(Exception):
    """There is no such function, or it has other parameters than its twin."""


class Twin(NamedTuple):
    """Replaces `function` of `module` (a method is written as "Class.method") by the function
    `wrong`."""

    module: str
    function: str
    wrong: Callable[..., Any]


def swapped_source(twin: Twin, source: str) -> str:
    """The module's text with the twin in the function's place. Raises TwinDoesNotFit."""
    right = _function(ast.parse(source), twin)
    text = textwrap.dedent(inspect.getsource(twin.wrong))
    wrong = ast.parse(text).body[0]
    assert isinstance(wrong, ast.FunctionDef)
    if twin.function.count("."):  # the twin of a method says what `self` is
        wrong.args.args[0].annotation = None
    if ast.dump(right.args) != ast.dump(wrong.args):
        raise TwinDoesNotFit(
            f"{twin.module}.{twin.function} has the parameters ({ast.unparse(right.args)}) "
            f"and its twin {wrong.name} ({ast.unparse(wrong.args)})"
        )
    lines, body = source.splitlines(), text.splitlines()[wrong.body[0].lineno - 1 :]
    indent = " " * right.body[0].col_offset
    new = textwrap.indent(textwrap.dedent("\n".join(body)), indent)
    head, rest = lines[: right.body[0].lineno - 1], lines[right.end_lineno :]
    return "\n".join([*head, new, *rest]) + "\n"


def _function(tree: ast.Module, twin: Twin) -> ast.FunctionDef:
    found: list[ast.stmt] = tree.body
    *owners, name = twin.function.split(".")
    for owner in owners:
        found = [
            s for c in found if isinstance(c, ast.ClassDef) and c.name == owner for s in c.body
        ]
    named = [s for s in found if isinstance(s, ast.FunctionDef) and s.name == name]
    if len(named) != 1:
        raise TwinDoesNotFit(f"{twin.module} has {len(named)} functions {twin.function}")
    return named[0]
