"""A function's wrong twin takes its place, and only where it can stand there."""

from __future__ import annotations

import ast
import builtins
import symtable
from pathlib import Path

import pytest

from chaos.mutants import twins
from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import patched_source, source_of
from chaos.mutants.table import MUTANTS
from chaos.mutants.twin import Twin, TwinDoesNotFit

SOURCE = '''"""A module."""

from math import inf


def lower(one: float, other: float) -> float:
    """The lower of two.

    Of equals the first.
    """
    if other < one:
        return other
    return one


class Row:
    @property
    def size(self) -> int:
        return 1

    def longest(
        self,
        least: int = 0,
    ) -> int:
        """Of all."""
        return max(least, 7)
'''


def higher(one: float, other: float) -> float:
    if other > one:
        return other
    return one


def with_fewer(one: float) -> float:
    return one


def endless(self: object, least: int = 0) -> float:
    found = [least]
    return max(*found, inf)  # type: ignore[name-defined,no-any-return]  # noqa: F821  # its module has it


def test_the_body_is_the_twins_and_the_first_line_the_rules_own() -> None:
    source = patched_source(Twin("m", "lower", higher), SOURCE)
    module: dict[str, object] = {}
    exec(source, module)
    assert module["lower"](1.0, 2.0) == 2.0  # type: ignore[operator]
    assert source.replace("other > one", "other < one").count("if other < one:") == 1
    assert source.splitlines()[-12:] == SOURCE.splitlines()[-12:]


def test_a_method_is_swapped_and_uses_names_of_its_module() -> None:
    module: dict[str, object] = {}
    exec(patched_source(Twin("m", "Row.longest", endless), SOURCE), module)
    row = module["Row"]()  # type: ignore[operator]
    assert (row.longest(), row.size) == (float("inf"), 1)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("upper", "0 functions upper"),
        ("Row.lower", "0 functions Row.lower"),
        ("lower.longest", "0 functions"),
        ("Row.size", "parameters"),
        ("lower", "parameters"),
    ],
)
def test_a_twin_that_does_not_fit_is_an_error(function: str, why: str) -> None:
    with pytest.raises(TwinDoesNotFit, match=why):
        patched_source(Twin("m", function, with_fewer), SOURCE)


TWINS = [
    (mutant, patch) for mutant in MUTANTS for patch in mutant.patches if isinstance(patch, Twin)
]


@pytest.mark.parametrize(("mutant", "twin"), TWINS, ids=lambda one: getattr(one, "name", ""))
def test_every_name_in_a_twin_is_one_of_the_modules_own(mutant: Mutant, twin: Twin) -> None:
    """It would fail for that else, and say nothing of the rule."""
    source = patched_source(twin, source_of(twin.module))
    table = symtable.symtable(source, twin.module, "exec")
    for name in twin.function.split("."):
        (table,) = [child for child in table.get_children() if child.get_name() == name]
    known = {*dir(builtins), *symtable.symtable(source, twin.module, "exec").get_identifiers()}
    assert isinstance(table, symtable.Function)
    assert set(table.get_globals()) <= known


def test_no_twin_is_left_over() -> None:
    """Each is some mutant's."""
    used = {(twin.wrong.__module__, twin.wrong.__name__) for _, twin in TWINS}
    found = {
        (f"chaos.mutants.twins.{path.stem}", one.name)
        for path in Path(*twins.__path__).glob("*.py")
        for one in ast.parse(path.read_text()).body
        if isinstance(one, ast.FunctionDef)
    }
    assert found == used
