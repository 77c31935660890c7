"""README.md has a row for each defect, and each row that names a test names one that exists."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
ROW = re.compile(r"^\| ([WY]\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NUMBERS = [*(f"W{number}" for number in range(1, 31)), *(f"Y{number}" for number in range(1, 15))]


def rows() -> dict[str, str]:
    """Number of a defect → what stands in the column of our test."""
    found = ROW.findall((HERE / "README.md").read_text(encoding="utf-8"))
    assert len({number for number, _, _ in found}) == len(found), "a defect has one row"
    return {number: test for number, _, test in found}


def defined() -> set[str]:
    text = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_[wy]*.py"))
    return set(re.findall(r"^def (test_[wy]\d\d_\w+)", text, re.MULTILINE))


def test_each_defect_has_a_row() -> None:
    assert list(rows()) == NUMBERS


def test_each_row_names_a_test_that_exists_or_the_reason() -> None:
    tests = defined()
    for number, cell in rows().items():
        named = re.findall(r"`(test_\w+)`", cell)
        assert set(named) <= tests, number
        prefix = f"test_{number[0].lower()}{int(number[1:]):02}_"
        assert all(name.startswith(prefix) for name in named), number
        if not named:
            assert cell.startswith("none here: "), number
            files = re.findall(r"`([\w/]+\.py)`", cell)
            assert files, number
            assert all((TESTS / path).exists() for path in files), number


def test_each_test_has_its_place_in_the_table() -> None:
    named = set(re.findall(r"`(test_\w+)`", " ".join(rows().values())))
    assert defined() == named
