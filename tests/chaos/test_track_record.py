"""The track record names tests that exist: a guard that was renamed or removed is seen here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "chaos" / "TRACK_RECORD.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+(?:\.py)?(?:::\w+)?)`", TEXT)))


def test_it_names_tests() -> None:
    assert len(NAMED) >= 40


@pytest.mark.parametrize("named", NAMED)
def test_what_it_names_is_there(named: str) -> None:
    path, _, function = named.partition("::")
    assert (ROOT / path).exists()
    if function:
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_row_is_as_wide_as_its_table_and_says_what_was_wrong() -> None:
    width = 0
    for line in TEXT.splitlines():
        cells = line.strip("|").split("|") if line.startswith("|") else []
        if not cells:
            width = 0
            continue
        width = width or len(cells)
        assert len(cells) == width, line
        assert cells[0].strip(), line
