"""What a page points to is there."""

from __future__ import annotations

import re

import pytest

from .pages import ROOT, pages, read

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(
    r"`((?:tests|chaos|cluster|dledger|commitlog|pipeline|conf|docs|scripts)/[\w/.-]*)`"
)
#: Names files of other projects, of runs, and of what is still to come.
_NOT_OURS = frozenset({"ROADMAP.md", "docs/evidence.md"})


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    missing = []
    for target in _LINK.findall(read(page)):
        path, _, heading = target.partition("#")
        if re.match(r"\w+:", path):
            continue  # somewhere else in the world
        file = folder / path if path else ROOT / page
        if not file.exists() or (heading and heading not in _headings(file.read_text("utf-8"))):
            missing.append(target)
    assert not missing


@pytest.mark.parametrize("page", [page for page in pages() if page not in _NOT_OURS])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    named = [name for name in _FILE.findall(read(page)) if "/" in name]
    bases = (ROOT, ROOT / "tests", (ROOT / page).parent)
    missing = [name for name in named if not any((base / name).exists() for base in bases)]
    assert not missing


def _headings(text: str) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    found = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
