"""docs/README.md: a reading order of five pages, and a way to every page of docs/."""

from __future__ import annotations

import re

from .source_tree import ROOT

PAGE = (ROOT / "docs/README.md").read_text("utf-8")


def test_five_pages_are_read_first() -> None:
    """Numbered 1 to 5, each a link to a page that is there."""
    steps = re.findall(r"^(\d)\. \[[^\]]+\]\(([^)#]+)\)", PAGE, re.MULTILINE)
    assert [number for number, _ in steps] == ["1", "2", "3", "4", "5"]
    assert all((ROOT / "docs" / target).is_file() for _, target in steps)


def test_every_page_of_docs_is_linked() -> None:
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#]+)\)", PAGE)}
    pages = {path.resolve() for path in (ROOT / "docs").rglob("*.md")}
    assert not pages - linked - {(ROOT / "docs/README.md").resolve()}
