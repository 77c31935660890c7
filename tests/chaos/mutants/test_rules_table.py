"""dledger/README.md names, for every rule, tests and mutants that exist; none is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.mutants.table import MUTANTS

from .test_table import RULES

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| ([DSLR]\d+)( ●)? \| ([^|]+) \| ([^|]*) \| ([^|]*)\|$", re.MULTILINE)
ROWS = {found[1]: found for found in ROW.finditer((ROOT / "dledger/README.md").read_text("utf-8"))}


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_rule_has_a_row() -> None:
    assert ROWS.keys() >= RULES | {"L6"}
    assert {rule for rule, row in ROWS.items() if row[2]} == {r for r in ROWS if r[0] == "R"}


@pytest.mark.parametrize("rule", sorted(RULES | {"L6"}))
def test_its_tests_exist(rule: str) -> None:
    files = [name for name in names(ROWS[rule][4]) if name != "dledger sim"]
    assert files
    for name in files:
        # The conformance suite's tests are inherited: they are for every storage there is.
        text = (ROOT / "tests" / name).read_text("utf-8")
        assert "def test_" in text or "conformance" in text, name


@pytest.mark.parametrize("rule", sorted(RULES))
def test_its_mutants_are_those_of_the_table(rule: str) -> None:
    found = {mutant.name for mutant in MUTANTS if rule in mutant.rules}
    assert set(names(ROWS[rule][5])) == found
