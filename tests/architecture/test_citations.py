"""Every citation of a page, a heading or a rule resolves in this repository."""

from __future__ import annotations

import functools

import pytest

from .script_module import load
from .source_tree import ROOT

RULES = load("rules")


@functools.cache
def cited_texts() -> tuple[tuple[str, str], ...]:
    """Path and text of all files; read when a test asks, not by each worker that imports this."""
    golden = "tests/data/golden/"
    return tuple((name, text) for name, text in RULES.files() if not name.startswith(golden))


def test_every_page_that_is_cited_is_there() -> None:
    missing = []
    for name, text in cited_texts():
        for cited in RULES.citations(name, text):
            if cited.page.startswith("docs/") and not (ROOT / cited.page).exists():
                missing.append(str(cited))
    assert not missing


def test_every_heading_that_is_cited_is_there() -> None:
    """`docs/spec/store.md 5.4`: a heading of that page has the number 5.4."""
    known: dict[str, set[str]] = {}
    missing, count = [], 0
    for name, text in cited_texts():
        for cited in RULES.citations(name, text):
            is_number = cited.page.startswith("docs/") and cited.heading
            is_words = cited.heading and not cited.heading[0].isdigit()
            folder = (ROOT / name).parent
            page = next((b / cited.page for b in (ROOT, folder) if (b / cited.page).exists()), None)
            if page is None or not (is_number or is_words):
                continue
            key = str(page.resolve().relative_to(ROOT))
            headings = known.setdefault(key, RULES.headings(key))
            count += 1
            if cited.heading not in headings:
                missing.append(str(cited))
    assert not missing
    assert count > 400, "the pattern still finds them"


def test_every_file_that_code_names_is_there() -> None:
    """From the root, from `tests/` or from the file's own folder; tests/docs does it for pages."""
    missing, count = [], 0
    for name, text in cited_texts():
        if not name.endswith(".py"):
            continue
        for place in RULES.files_named(name, text):
            count += 1
            bases = (ROOT, ROOT / "tests", (ROOT / name).parent)
            if not any((base / place.rule).exists() for base in bases):
                missing.append(f"{place.file}:{place.line}: {place.rule}")
    assert not missing
    assert count > 300, "the pattern still finds them"


def test_no_citation_has_the_old_form() -> None:
    """`docs/spec/store.md 5.4` names no page of this repository; `docs/spec/store.md 5.4` does."""
    found = [
        f"{name}:{text.count(chr(10), 0, old.start()) + 1}: {old[0]}; write docs/spec/…"
        for name, text in cited_texts()
        if ".md" in text and name != "scripts/rules.py"
        if not name.startswith("tests/architecture/")
        for old in RULES.OLD_FORM.finditer(text)
    ]
    assert not found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(docs/spec/store.md 5.4)", ["5.4"]),
        ("docs/spec/store.md 7.1, 7.2): which", ["7.1", "7.2"]),
        ("docs/spec/store.md 3.2-3.5.", ["3.2", "3.5"]),
        ("docs/spec/remoting.md 2 and 3).", ["2", "3"]),
        ("docs/spec/store.md 1.1, field 7", ["1.1"]),
        ("docs/spec/raft_log.md 1.7, 8, Annex A.", ["1.7", "8", "Annex A"]),
        ("# docs/spec/store.md\n#: 1.3 says", ["1.3"]),
        ('docs/decisions.md, "Names"', ["Names"]),
        ("see docs/spec/store.md.", [""]),
    ],
)
def test_what_is_taken_for_a_citation(text: str, expected: list[str]) -> None:
    assert [cited.heading for cited in RULES.citations("here", text)] == expected
