"""The pages of bugs name tests and mutants that exist, and commands show what they say."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import pytest

from chaos.mutants.table import MUTANTS
from tests.waiting import limit

from .pages import ROOT, read

TEXT = read("docs/bugs.md") + read("docs/other-bugs.md")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+(?:\.py)?(?:::\w+)?)`", TEXT)))
COMMANDS = sorted(set(re.findall(r"`dledger (mutants --only [\w-]+)`", TEXT)))
SAMPLE = 3
SEED = os.environ.get("DLEDGER_BUGS_SEED", "0")


def _rows() -> list[list[str]]:
    """Cells of each row that says how to see it again."""
    lines = [line for line in TEXT.splitlines() if "`dledger mutants --only" in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_page_names_tests_and_commands() -> None:
    assert len(TESTS) >= 60
    assert len(COMMANDS) >= 15


@pytest.mark.parametrize("named", TESTS)
def test_a_test_of_a_row_exists(named: str) -> None:
    path, _, function = named.partition("::")
    assert (ROOT / path).exists()
    if function:
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_row_that_can_be_seen_again_says_symptom_cause_fix_test_and_command() -> None:
    killers = {mutant.name: mutant.tests for mutant in MUTANTS}
    for cells in _rows():
        assert len(cells) == 5, cells
        assert all(cells), cells
        name = cells[4].strip("`").rpartition(" ")[2]
        test = cells[3].strip("`")
        assert name in killers, f"no mutant {name}"
        assert any(killer.startswith(test) for killer in killers[name]), cells


def test_every_row_is_as_wide_as_its_table() -> None:
    width = 0
    for line in TEXT.splitlines():
        count = line.count(" | ") if line.startswith("| ") else 0
        width = (width or count) if count else 0
        assert count == width, line


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", random.Random(SEED).sample(COMMANDS, SAMPLE))
def test_a_command_of_a_row_shows_the_bug_without_its_rule(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cluster.cli", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit(600),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("killed 1/1")
