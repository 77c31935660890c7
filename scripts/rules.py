"""Where the rules and pages of this project are cited: collected, never typed.

    scripts/rules                  every rule: the code, the tests and the mutants that cite it
    scripts/rules R18 D8           these only
    scripts/rules --changed REV    places that cite a rule whose text changed since REV
    scripts/rules --pages          how many places cite each page, and each of its headings

A citation is `docs/spec/store.md 5.4` (a page and the numbers of its headings), `docs/decisions.md,
"Names"` (a page and the words of a heading), or a rule of docs/rules.md in a comment, a docstring
or a page (`R18`). Mutants name the rules that they take out in a field (chaos/mutants/mutant.py).
`tests/architecture/test_citations.py` holds every citation to its target.
"""

from __future__ import annotations

import argparse
import functools
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES_PAGE = "docs/rules.md"
#: Pages that list rules or what was made of them: what stands there is no citation.
NO_CITATIONS = (RULES_PAGE, "chaos/MUTANTS.md", "uv.lock")
_PAGE = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[\w-]+\.md)")
_NUMBER = r"(?:Annex [A-Z]|[A-Z]\.\d+|\d+(?:\.\d+)*)(?![\w%]|\.\d|,\d)"
_HEADINGS = re.compile(rf"`? ({_NUMBER}(?:(?:, (?:and )?| and |-){_NUMBER})*)")
_WORDS = re.compile(r'`?, "([^"\n]+)"')
_RULE = re.compile(r"(?<![\w'`.-])(?<!(?<!\"\")\")([RDSL])(\d{1,2})(?:-\1?(\d{1,2}))?(?![\w\"'`-])")
_DEFECT = re.compile(r"(?<![\w'`.])(?<!(?<!\"\")\")([WY]\d{1,2})(?![\w\"'`])")
_FILE = re.compile(
    r"(?<![\w/.<-])((?:tests|chaos|cluster|dledger|commitlog|pipeline|conf|docs|scripts)/[\w/.-]*"
    r"\.(?:py|md|toml|txt|json))\b"
)
#: The form of citations before the pages came into this repository.
OLD_FORM = re.compile(
    r"(?<![\w/.-])(?<!\]\()(?:spec/)?"
    r"(?:store|raft_log|remoting|chaos|pipeline|design|safety_rules|models|ecosystem)\.md\b"
)


@dataclass(frozen=True, slots=True)
class Citation:
    """One page that is cited: `heading` is a number, the words of a heading, or ""."""

    file: str
    line: int
    page: str
    heading: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.page} {self.heading}".rstrip()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule (or a defect, or a file) is cited."""

    rule: str
    file: str
    line: int


@functools.cache
def files() -> tuple[tuple[str, str], ...]:
    """Path and text of every text file in git, or new and not ignored."""
    found = []
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in sorted(listed.splitlines()):
        path = ROOT / name
        if name in NO_CITATIONS or not path.is_file() or path.is_symlink():
            continue
        try:
            found.append((name, path.read_text("utf-8")))
        except UnicodeDecodeError:
            continue
    return tuple(found)


def joined(text: str) -> str:
    """The text with its line breaks (and comment signs behind them) as spaces, places kept.

    A citation may be broken by the end of a line; every character keeps its offset, so that a
    line's number can be counted in the original.
    """
    return re.sub(r"\n[ \t]*(?:#:?)?[ \t]*", lambda found: " " * len(found[0]), text)


@functools.cache
def citations(name: str, text: str) -> tuple[Citation, ...]:
    """Every page that a file cites, with the headings behind it."""
    return tuple(_citations(name, text))


def _citations(name: str, text: str) -> Iterator[Citation]:
    if ".md" not in text:
        return  # most files
    flat = joined(text)
    # One space may have become many at a broken line.
    for found in _PAGE.finditer(flat):
        rest = re.sub(r" +", " ", flat[found.end() : found.end() + 200])
        line = text.count("\n", 0, found.start()) + 1
        if headings := _HEADINGS.match(rest):
            for number in re.findall(_NUMBER, headings[1]):
                yield Citation(name, line, found[1], number)
        elif words := _WORDS.match(rest):
            yield Citation(name, line, found[1], words[1])
        else:
            yield Citation(name, line, found[1], "")


def headings(page: str) -> set[str]:
    """Numbers and words of a page's headings, as citations write them."""
    found: set[str] = set()
    for line in re.findall(r"^#+ +(.*?) *$", (ROOT / page).read_text("utf-8"), re.MULTILINE):
        found.add(line)
        if number := re.match(r"(Annex [A-Z]|[A-Z]\.\d+|\d+(?:\.\d+)*)[.:]? (.*)", line):
            found |= {number[1], number[2]}
    # A drawing or a paragraph in bold has a name, too: **Why this is cheap.**
    text = (ROOT / page).read_text("utf-8")
    return found | {words.rstrip(".:") for words in re.findall(r"\*\*([^*\n]+)\*\*", text)}


def rules() -> dict[str, str]:
    """Rule → its whole text in docs/rules.md, from its heading to the next one."""
    return rules_of((ROOT / RULES_PAGE).read_text("utf-8"))


def rules_of(page: str) -> dict[str, str]:
    parts = re.split(r"^### ([A-Z]\d+)\b", page, flags=re.MULTILINE)
    return {
        rule: re.split(r"^## ", text, flags=re.MULTILINE)[0].strip()
        for rule, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@functools.cache
def prose(name: str, text: str) -> tuple[tuple[int, str], ...]:
    """First line and text of each part of a file that people read: comments and sentences."""
    if not name.endswith(".py"):
        return ((1, text),)
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_sentence = token.type == tokenize.STRING and (
            " " in token.string or "\n" in token.string
        )
        if token.type == tokenize.COMMENT or is_sentence or token.string.startswith('"""'):
            found.append((token.start[0], token.string))
    return tuple(found)


def rule_places(name: str, text: str) -> Iterator[Place]:
    """Every rule that a file cites; `R12-R14` cites three."""
    if not _RULE.search(text):
        return  # most files: they need not be read token by token
    for first, part in prose(name, text):
        for found in _RULE.finditer(part):
            line = first + part.count("\n", 0, found.start())
            last = int(found[3] or found[2])
            for number in range(int(found[2]), max(last, int(found[2])) + 1):
                yield Place(f"{found[1]}{number}", name, line)


def defect_places(name: str, text: str) -> Iterator[Place]:
    """Every defect of other logs (W, Y) that a file of ours cites."""
    if not _DEFECT.search(text):
        return  # most files: they need not be read token by token
    for first, part in prose(name, text):
        for found in _DEFECT.finditer(part):
            yield Place(found[1], name, first + part.count("\n", 0, found.start()))


def files_named(name: str, text: str) -> Iterator[Place]:
    """Every file of this repository that a sentence of a file names, in the field `rule`."""
    if not _FILE.search(text):
        return  # most files: they need not be read token by token
    for first, part in prose(name, text):
        for found in _FILE.finditer(part):
            yield Place(found[1], name, first + part.count("\n", 0, found.start()))


def is_about_rules(name: str) -> bool:
    """Files in which a letter and a number are a rule: code, tests and pages of ours."""
    return name.endswith((".py", ".md", ".toml")) and not name.startswith("tests/data/")


@functools.cache
def collected() -> dict[str, dict[str, list[str]]]:
    """Rule → "code", "tests" and "pages" → places; mutants are asked by `mutants_of`."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, text in files():
        if not is_about_rules(name):
            continue
        kind = "tests" if name.startswith("tests/") else "pages" if name.endswith(".md") else "code"
        for place in rule_places(name, text):
            row = found.setdefault(place.rule, {"code": [], "tests": [], "pages": []})
            row[kind].append(f"{place.file}:{place.line}")
    return found


def mutants_of() -> dict[str, list[str]]:
    """Rule → names of the mutants that take it out."""
    sys.path.insert(0, str(ROOT))
    from chaos.mutants.table import MUTANTS

    found: dict[str, list[str]] = {}
    for mutant in MUTANTS:
        for rule in mutant.rules:
            found.setdefault(rule, []).append(mutant.name)
    return found


def changed_since(revision: str) -> list[str]:
    """Rules whose text differs from that of a revision, new ones included."""
    shown = subprocess.run(
        ["git", "show", f"{revision}:{RULES_PAGE}"], cwd=ROOT, capture_output=True, text=True
    )
    before = rules_of(shown.stdout) if shown.returncode == 0 else {}
    return [rule for rule, text in rules().items() if before.get(rule) != text]


def main() -> None:
    parser = argparse.ArgumentParser(description="Where each rule of docs/rules.md is cited.")
    parser.add_argument("rules", nargs="*", help="only these, as R18")
    parser.add_argument("--changed", metavar="REV", help="rules whose text changed since REV")
    parser.add_argument("--pages", action="store_true", help="count citations of pages instead")
    given = parser.parse_args()
    if given.pages:
        counts: dict[str, int] = {}
        for name, text in files():
            for cited in citations(name, text):
                if cited.page.startswith("docs/"):
                    key = f"{cited.page} {cited.heading}".rstrip()
                    counts[key] = counts.get(key, 0) + 1
        for key, count in sorted(counts.items()):
            print(f"{count:4}  {key}")
        print(f"{sum(counts.values()):4}  citations of pages below docs/")
        return
    wanted = changed_since(given.changed) if given.changed else given.rules or list(rules())
    if unknown := set(wanted) - rules().keys():
        parser.error(f"{', '.join(sorted(unknown))}: not in {RULES_PAGE}; name rules as R18")
    found, mutants = collected(), mutants_of()
    for rule in wanted:
        print(f"{rule}  {rules()[rule].splitlines()[0].lstrip('. ')}")
        row = found.get(rule, {})
        for kind in ("code", "tests", "pages"):
            for place in row.get(kind, []):
                print(f"    {kind:6} {place}")
        for name in mutants.get(rule, []):
            print(f"    mutant {name}")
    places = sum(len(kind) for rule in wanted for kind in found.get(rule, {}).values())
    print(f"{len(wanted)} rules, {places} places")


if __name__ == "__main__":
    main()
