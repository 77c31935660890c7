"""Private words, pronouns for nouns, docstrings that open without their noun, public names without
a docstring, and private members in tests only become fewer.
"""

from __future__ import annotations

import ast
import functools
import re

import pytest

from .script_module import load
from .source_tree import ROOT, nodes_of_file

SCRIPT = load("ratchets")
LOWER = "scripts/ratchets --write (lowers what has fallen)"


@functools.cache
def now() -> dict[str, dict[str, int]]:
    """Counted when a test asks: each worker imports this file, and one runs its tests."""
    counted: dict[str, dict[str, int]] = SCRIPT.counts(nodes_of_file)
    return counted


@pytest.mark.parametrize("package", SCRIPT.PACKAGES)
@pytest.mark.parametrize("kind", SCRIPT.KINDS)
def test_a_number_only_falls(kind: str, package: str) -> None:
    limit = SCRIPT.limits()[kind][package]
    number = now()[kind][package]
    assert number <= limit, (
        f"{kind} of {package} rose from {limit} to {number}; see scripts/ratchets --names {kind}, "
        f"use the terms of docs/glossary.md, then {LOWER}"
    )


def test_the_file_has_every_number_and_no_other() -> None:
    limits = SCRIPT.limits()
    assert {kind: set(row) for kind, row in limits.items()} == {
        kind: set(SCRIPT.PACKAGES) for kind in SCRIPT.KINDS
    }


def test_the_file_is_only_lowered() -> None:
    later = {kind: dict.fromkeys(SCRIPT.PACKAGES, 5) for kind in SCRIPT.KINDS}
    before = {kind: dict.fromkeys(SCRIPT.PACKAGES, 3) for kind in SCRIPT.KINDS}
    assert " = 5" not in SCRIPT.written(later, before)
    assert " = 3" in SCRIPT.written(before, later)


def test_every_retired_word_stands_in_the_glossary() -> None:
    """In the last column of a table, beside the term that replaces it."""
    page = (ROOT / "docs/glossary.md").read_text("utf-8")
    last = " ".join(row.rsplit("|", 2)[1] for row in re.findall(r"^\|.*\|$", page, re.MULTILINE))
    missing = {word for word in SCRIPT.RETIRED if not re.search(rf"\b{word}\b", last)}
    assert not missing


def test_a_term_stands_once_in_the_glossary() -> None:
    page = (ROOT / "docs/glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    terms = [term for row in rows for term in row.split(", ") if row != "term"]
    assert len(terms) > 80
    assert not {term for term in terms if terms.count(term) > 1}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("SyncLane", "lane"),
        ("parked_rules", "parked"),
        ("in_flight", ""),
        ("InFlightBatch", ""),
        ("flights", ""),
        ("standalone", ""),
        ("room_left", "room"),
        ("lives_of", "lives"),
        ("withdrawn", ""),
    ],
)
def test_which_names_contain_a_retired_word(name: str, word: str) -> None:
    assert SCRIPT.retired_in(name) == word


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("Of one node; see the module's text.", "Of"),
        ("It has ended.", "It"),
        ("Its wall clock.", "Its"),
        ("Those that are in it.", "Those"),
        ("None: missing or damaged.", "None:"),
        ("Iterate over the queues.", ""),
        ("The member with this id; None: the group has none.", ""),
        ("None if the peer is known, else a sentence.", ""),
        ("Offset of the entry that comes next.", ""),
    ],
)
def test_which_docstrings_open_without_their_noun(text: str, opening: str) -> None:
    assert SCRIPT.opening_of(text) == opening


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("no room for more of the log", "room"),
        ("Mended by its peers.", "mended"),
        ('work of kind "mend"', ""),
        ("the mutant only-what-is-committed-is-mended", ""),
        ("a recommendation, a headroom", ""),
    ],
)
def test_which_sentences_say_a_private_word(text: str, word: str) -> None:
    assert SCRIPT.prose_in(text) == word


def test_prose_is_read_in_comments_docstrings_and_error_texts_and_not_in_code() -> None:
    source = '''"""First.

    It has room.
    """
    room = 1  # crowd
    raise ValueError(f"a deed of {len(room)}")
    '''.replace("\n    ", "\n")
    assert list(SCRIPT.prose(source)) == [(3, "room"), (5, "crowd"), (6, "deed")]


#: Pages whose sentences come from commands and error texts elsewhere.
GENERATED = ("docs/glossary.md", "docs/reference/commands.md")


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("node._saving.begin()", ["_saving"]),
        ("log.driver._timer.at, self._log._end", ["_end", "_timer"]),
        ("self._log.append(b'x'), cls._made, super()._close()", []),
        ("row._replace(a=1), row._asdict(), box.__len__()", []),
    ],
)
def test_which_uses_of_private_members_count(text: str, uses: list[str]) -> None:
    nodes = tuple(ast.walk(ast.parse(text)))
    assert sorted(name for _, name in SCRIPT.private_uses(nodes)) == uses


def test_pages_say_no_private_word() -> None:
    pages = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    for folder in ("docs", *SCRIPT.PACKAGES):
        pages += (ROOT / folder).rglob("*.md")
    assert len(pages) > 60
    found = {
        f"{page.relative_to(ROOT)}:{number}": word
        for page in pages
        if str(page.relative_to(ROOT)) not in GENERATED
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if (word := SCRIPT.prose_in(re.sub(r"`[^`]*`", "", line)))
    }
    assert not found
