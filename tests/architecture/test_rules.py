"""docs/rules.md defines every rule that is cited, in three parts; the places are collected."""

from __future__ import annotations

import re

import pytest

from chaos.mutants.table import MUTANTS

from .script_module import load
from .source_tree import ROOT

SCRIPT = load("rules")
RULES: dict[str, str] = SCRIPT.rules()
#: L6 is the simulator itself: without it nothing runs, so no mutant can take it out.
WITHOUT_MUTANT = {"L6"}
OF_THE_PRODUCT = sorted(rule for rule in RULES if rule[0] in "RDSL")


def test_every_rule_that_is_cited_is_defined() -> None:
    """Also in mutants, which name the rules that they take out."""
    found = {
        f"{place.rule} {place.file}:{place.line}"
        for name, text in SCRIPT.files()
        if SCRIPT.is_about_rules(name)
        for place in SCRIPT.rule_places(name, text)
        if place.rule not in RULES
    }
    found |= {f"{rule} {m.name}" for m in MUTANTS for rule in m.rules if rule not in RULES}
    assert not found, "write the rule into docs/rules.md, or cite another one"


def test_every_mutant_names_the_rules_that_it_takes_out() -> None:
    assert not [mutant.name for mutant in MUTANTS if not mutant.rules]


def test_every_defect_that_is_cited_is_a_row_of_the_page() -> None:
    """W1 to W30 and Y1 to Y14 are defects of other logs, in docs/spec/raft_log.md 4 and 5."""
    page = (ROOT / "docs/spec/raft_log.md").read_text("utf-8")
    rows = set(re.findall(r"^\| ([WY]\d+) \|", page, re.MULTILINE))
    cited = {
        f"{place.rule} {place.file}:{place.line}"
        for name, text in SCRIPT.files()
        if SCRIPT.is_about_rules(name) and name.startswith(("tests/", "dledger/", "commitlog/"))
        for place in SCRIPT.defect_places(name, text)
        if place.rule not in rows
    }
    assert len(rows) == 44
    assert not cited


def test_a_rule_has_one_definition_and_numbers_have_no_holes() -> None:
    page = (ROOT / SCRIPT.RULES_PAGE).read_text("utf-8")
    defined = re.findall(r"^### ([A-Z]\d+)\b", page, re.MULTILINE)
    assert len(defined) == len(set(defined))
    for letter in "RDSLC":
        numbers = [int(rule[1:]) for rule in defined if rule[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("rule", OF_THE_PRODUCT)
def test_a_rule_has_its_trap_its_requirement_and_what_is_enforced(rule: str) -> None:
    parts = re.findall(r"^\*\*(Trap|Requirement|Enforced)\.\*\* \S", RULES[rule], re.MULTILINE)
    assert parts == ["Trap", "Requirement", "Enforced"]


@pytest.mark.parametrize("rule", OF_THE_PRODUCT)
def test_a_rule_is_held_by_tests_and_mutants(rule: str) -> None:
    cited = SCRIPT.collected().get(rule, {"tests": [], "code": []})
    mutants = [mutant for mutant in MUTANTS if rule in mutant.rules and not mutant.argued]
    assert cited["tests"] or any(mutant.tests for mutant in mutants), "no test cites it"
    assert mutants or rule in WITHOUT_MUTANT, "no mutant takes it out"


def test_rules_whose_text_changed_are_told() -> None:
    old = "### R1. One\n\n**Trap.** a\n\n## Next\n\n### R2. Two\n\nb\n"
    assert SCRIPT.rules_of(old) == {"R1": ". One\n\n**Trap.** a", "R2": ". Two\n\nb"}
    assert not SCRIPT.changed_since("HEAD") or set(SCRIPT.changed_since("HEAD")) <= RULES.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# R12-R14 hold\n", ["R12", "R13", "R14"]),
        ("# (D1, D2; R7)\n", ["D1", "D2", "R7"]),
        ('"""R18: followers."""\n', ["R18"]),
        ('x = {"L0", "L2"}\n', []),
        ("R8 = 3\n", []),
    ],
)
def test_what_is_taken_for_a_rule(text: str, expected: list[str]) -> None:
    assert [place.rule for place in SCRIPT.rule_places("here.py", text)] == expected
