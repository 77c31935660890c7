"""Every bug of docs/spec/chaos.md 5.2 is a mutant, killed in its arenas or with a reason."""

from __future__ import annotations

import pytest

from chaos.mutants import spec_rows
from chaos.mutants.control import Control
from chaos.mutants.mutant import Mutant
from chaos.mutants.page import markdown
from chaos.mutants.run import Fate, ordinal
from chaos.mutants.spec_rows import (
    NUMBERS,
    ROWS,
    SpecRow,
    arenas_of,
    missing_arenas,
    mutants_of,
)
from chaos.mutants.table import MUTANTS


def test_there_are_39_bugs_of_the_protocol_and_8_of_checkers() -> None:
    protocol, checkers = range(1, 40), range(1, 9)
    assert list(NUMBERS) == [*map(str, protocol), *(f"C{number}" for number in checkers)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_a_bug_has_a_mutant_that_runs_or_only_argued_ones(row: SpecRow) -> None:
    found = mutants_of(row, MUTANTS)
    assert found
    assert any(not mutant.argued for mutant in found)


def test_mutants_name_rows_that_exist() -> None:
    assert {number for mutant in MUTANTS for number in mutant.rows} == set(NUMBERS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_an_arena_without_a_killer_has_a_reason_and_no_other_one(row: SpecRow) -> None:
    assert set(row.instead) == set(missing_arenas(row, MUTANTS))


def test_tests_are_told_apart_by_where_they_run() -> None:
    power, unit = (
        "tests/chaos/mutants/test_power.py::test_a",
        "tests/dledger/replica/test_replica.py::t",
    )
    live = "tests/chaos/live/test_kinds.py::test_b"
    mutant = Mutant("m", (), (), seeds=1, tests=(power, unit, live))
    assert arenas_of(mutant) == "DPRU"
    assert spec_rows.tests_by_arena(mutant) == {"P": (power,), "U": (unit,), "R": (live,)}


def test_the_page_names_every_mutant_at_every_row_of_it() -> None:
    page = markdown(MUTANTS, (), Control(0, 0, (), 0.0))
    for mutant in MUTANTS:
        for row in mutant.rows or ("",):
            (line,) = (
                line for line in page.splitlines() if line.startswith(f"| {row} | {mutant.name} |")
            )
            assert ("argued" in line) == bool(mutant.argued)
            assert ("not run" in line) != bool(mutant.argued)


def test_the_page_tells_who_noticed_what() -> None:
    mutants = [
        Mutant("one", ("S1",), (), rows=("13",), seeds=20),
        Mutant("two", (), (), tests=("t",)),
        Mutant("three", (), (), argued="because"),
    ]
    killed = Fate(
        "one", ("S1",), ("13",), True, 1.5, ("tests/a.py::b",), 16, "dledger sim --seed 16"
    )
    page = markdown(mutants, [killed, Fate("two", (), (), False, 2.0)], Control(17, 1, (), 3.0))
    again = "python -m chaos.mutants.within one sim --seed 16"
    assert f"| 13 | one | S1 | seed 16, `a.py::b` | 17 (`{again}`) | 1.5 |" in page
    assert "|  | two |  | **nobody** |  | 2.0 |" in page
    assert "|  | three |  | argued: because | | |" in page
    assert "**Killed 1/2; 1 more are argued. 1 are killed by seeds" in page
    assert "17 seeds and 1 tests, clean." in page
    red = markdown(mutants, [killed], Control(17, 1, ("dledger sim --seed 3",), 3.0))
    assert "RED: dledger sim --seed 3" in red


def test_ordinals() -> None:
    found = [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)]
    assert found == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]
