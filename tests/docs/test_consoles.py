"""What a page shows of a console happens when it is typed, block by block, in a fresh folder."""

from __future__ import annotations

import pytest

from .desk import Desk
from .half_hour import PAGE
from .pages import blocks, matches, pages, typed

# The first half hour has a test of its own, step by step.
PAGES = [
    page
    for page in pages()
    if page != PAGE and any(block.language == "console" for block in blocks(page))
]


@pytest.mark.parametrize("page", PAGES)
def test_a_console_prints_what_the_page_shows(page: str, desk: Desk) -> None:
    lines = [one for block in blocks(page) if block.language == "console" for one in typed(block)]
    for line in lines:
        code, said = desk.type(line.words)
        assert code == 0, f"$ {line.words}\n{said}"
        assert line.shown is None or matches(line.shown, said), f"$ {line.words}\n{said}"
    desk.type("dledger down --purge")


def test_the_readme_has_one() -> None:
    assert "README.md" in PAGES
