"""docs/README.md: a reading order of five pages, and a way to every page of docs/."""

from __future__ import annotations

import re

from .source_tree import PACKAGES, ROOT, inside

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


def test_every_module_is_named_on_the_nearest_page() -> None:
    """A newcomer who reads the README of a folder hears of all that is in it."""
    unnamed = []
    for package in PACKAGES:
        for source in inside(package):
            path = ROOT / source.path
            if path.name == "__init__.py":
                continue
            page = next(page for up in path.parents if (page := up / "README.md").exists())
            words = re.findall(r"`[^`\n]+`", page.read_text("utf-8"))
            name = re.compile(rf"\b{re.escape(path.stem)}\b")
            if not any(name.search(word) for word in words) and f"{path.name}" not in (
                page.read_text("utf-8")
            ):
                unnamed.append(source.path)
    assert not unnamed, "add a row to the page, with the one idea of the module"
