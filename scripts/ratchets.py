"""Numbers about words that may only fall, per package, kept in tests/architecture/ratchets.toml.

    scripts/ratchets                 print the numbers
    scripts/ratchets --write         lower what has fallen in the file; it raises nothing
    scripts/ratchets --names WORD    names that contain a retired word, or all that break KIND
    scripts/ratchets --names undocumented

retired       names (modules, classes, functions, parameters) that contain a private word for which
              docs/glossary.md has the field's term
pronouns      docstrings whose first paragraph has who, whom, whose, what, whatever, whoever,
              nobody, somebody, everybody, anybody, someone, anyone, everyone or nothing
openings      docstrings of classes and functions that begin with a pronoun (it, its, they, their,
              those, these, both), with "Of" or with "None:" in place of the noun that is meant
prose         lines whose comments, docstrings or sentences (error texts, log lines) say a private
              word of `[prose]` in retired_words.toml; names of files and records in quotes may stay
undocumented  public classes, functions and methods without a docstring
private       uses of another object's private members, in the tests of the package

`tests/architecture/test_ratchets.py` fails when a number rises.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("commitlog", "dledger", "cluster", "chaos", "pipeline")
FILE = ROOT / "tests/architecture/ratchets.toml"
KINDS = ("retired", "pronouns", "openings", "prose", "undocumented", "private")

#: Private word → the field's term (docs/glossary.md). A new name with one of them is refused.
_WORDS = tomllib.loads((ROOT / "tests/architecture/retired_words.toml").read_text("utf-8"))
RETIRED: dict[str, str] = _WORDS["retired"]
#: Words that have no good use in a sentence of this project either, with the term to use.
PROSE: dict[str, str] = _WORDS["prose"]
#: Terms of the field that contain a retired word.
FIELD_TERMS = ("in_flight", "inflight")
#: Of named tuples; their underscore keeps them apart from fields.
_PUBLIC = ("_replace", "_asdict", "_fields", "_make")
_PRONOUN = re.compile(
    r"\b(who|whom|whose|what|whatever|whoever|nobody|somebody|everybody|anybody|someone|anyone"
    r"|everyone|nothing)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(r"(?:(?:It|Its|They|Their|Them|Those|These|Both|Of) |None: )")
#: A plain string; the text between the braces of an f-string, from Python 3.12 on.
_STRINGS = ("STRING", "FSTRING_MIDDLE")
#: One word in quotes is a name on the wire or on disk, one with hyphens a mutant's or a fault's.
_QUOTED = re.compile(r"""(["'`])[\w-]+\1""")
_IN_PROSE = re.compile(rf"(?<![\w-])({'|'.join(PROSE)})(?![\w-])", re.IGNORECASE)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

Nodes = Sequence[ast.AST]


@dataclass(frozen=True, slots=True)
class Found:
    """One place that a ratchet counts; `why`: the retired word, the term to use, or ""."""

    kind: str
    package: str
    place: str
    name: str
    why: str = ""


def retired_in(name: str) -> str:
    """The first retired word of a name, or ""; `in_flight` is the field's own term."""
    parts = [part.lower() for part in _PART.findall(name)]
    text = "_".join(parts)
    for term in FIELD_TERMS:
        text = text.replace(term, "")
    return next((part for part in text.split("_") if part in RETIRED), "")


def names(nodes: Nodes, module: str) -> Iterator[tuple[int, str]]:
    """Line and name of the module, its classes and functions, and their parameters."""
    yield 1, module
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
            given = node.args
            for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                yield argument.lineno, argument.arg


def documented(nodes: Nodes) -> Iterator[tuple[int, str, str]]:
    """Line, name and first paragraph of every docstring."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), getattr(node, "name", ""), text.split("\n\n")[0]


def opening_of(text: str) -> str:
    """The pronoun, "Of" or "None:" with which a docstring begins, or ""."""
    used = _OPENING.match(text)
    return used[0].strip() if used else ""


def undocumented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of public classes, functions and methods without a docstring."""

    def walk(body: list[ast.stmt], above: str) -> Iterator[tuple[int, str]]:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") or _is_exempt(node):
                continue
            if not ast.get_docstring(node):
                yield node.lineno, above + node.name
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{above}{node.name}.")

    yield from walk(tree.body, "")


def private_uses(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Line and name of each private member of another object; tuples' own methods are public."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr, re.IGNORECASE):
            owner = node.value
            if isinstance(owner, ast.Call):  # super()
                owner = owner.func
            is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls", "super")
            if not is_own and node.attr not in _PUBLIC:
                yield node.lineno, node.attr


def prose_in(text: str) -> str:
    """The first private word of a sentence, in lower case, or ""; quoted names do not count."""
    used = _IN_PROSE.search(_QUOTED.sub("", text))
    return used[0].lower() if used else ""


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Line and word of each comment, docstring and other string that says a private word."""
    if not prose_in(source):
        return  # most files: to take them apart costs a hundred times as much
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or tokenize.tok_name[token.type] in _STRINGS:
            for number, line in enumerate(token.string.strip("\"'").splitlines()):
                if word := prose_in(line):
                    yield token.start[0] + number, word


def _is_exempt(node: ast.stmt) -> bool:
    """A setter is documented by its getter, an overload by its implementation."""
    marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", [])]
    return any(mark.endswith((".setter", "overload", "override")) for mark in marks)


def nodes_of(path: Path) -> Nodes:
    """All of a file's syntax tree, its module first."""
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))


def found(package: str, read: Callable[[Path], Nodes] = nodes_of) -> Iterator[Found]:
    """Everything in a package that one of the ratchets counts; `read` as `nodes_of`."""
    for path in sorted((ROOT / package).rglob("*.py")):
        nodes = read(path)
        tree = nodes[0]
        assert isinstance(tree, ast.Module)
        where = str(path.relative_to(ROOT))
        for line, name in names(nodes, path.stem):
            if word := retired_in(name):
                yield Found("retired", package, f"{where}:{line}", name, word)
        for line, name, text in documented(nodes):
            if used := _PRONOUN.search(text):
                yield Found("pronouns", package, f"{where}:{line}", name or where, used[0])
            if name and (opening := opening_of(text)):
                yield Found("openings", package, f"{where}:{line}", name, opening)
        for line, word in prose(path.read_text("utf-8")):
            yield Found("prose", package, f"{where}:{line}", word, PROSE[word])
        for line, name in undocumented(tree):
            yield Found("undocumented", package, f"{where}:{line}", name)
    for path in sorted((ROOT / "tests" / package).rglob("*.py")):
        where = str(path.relative_to(ROOT))
        for line, name in private_uses(nodes_of(path)):
            yield Found("private", package, f"{where}:{line}", name)


def counts(read: Callable[[Path], Nodes] = nodes_of) -> dict[str, dict[str, int]]:
    """Kind → package → how many."""
    total = {kind: dict.fromkeys(PACKAGES, 0) for kind in KINDS}
    for package in PACKAGES:
        for one in found(package, read):
            total[one.kind][package] += 1
    return total


def limits() -> dict[str, dict[str, int]]:
    """What the file allows; empty before it is written for the first time."""
    return tomllib.loads(FILE.read_text("utf-8")) if FILE.exists() else {}


def written(now: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> str:
    """The file's text with each number at the lower of now and before."""
    lines = [
        "# Made by scripts/ratchets --write, which lowers numbers and raises none.",
        "# Numbers of places that may only become fewer; scripts/ratchets.py says of what.",
    ]
    for kind in KINDS:
        lines += ["", f"[{kind}]"]
        for package in PACKAGES:
            limit = before.get(kind, {}).get(package, now[kind][package])
            lines.append(f"{package} = {min(limit, now[kind][package])}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Numbers about words that may only fall.")
    parser.add_argument("--write", action="store_true", help="lower what has fallen in the file")
    parser.add_argument("--names", metavar="WORD_OR_KIND", help="list what is counted")
    given = parser.parse_args()
    if given.names:
        for package in PACKAGES:
            for one in found(package):
                if given.names in (one.kind, one.why if one.kind == "retired" else None):
                    print(f"{one.place}: {one.name}  {one.why}".rstrip())
        return
    now, before = counts(), limits()
    if given.write:
        FILE.write_text(written(now, before), "utf-8")
    for kind in KINDS:
        row = "  ".join(f"{package} {number}" for package, number in now[kind].items())
        print(f"{kind:13} {sum(now[kind].values()):5}   {row}")
    grown = [
        f"{kind} of {package}: {number}, allowed {before[kind][package]}"
        for kind, row in now.items()
        for package, number in row.items()
        if kind in before and number > before[kind][package]
    ]
    if grown:
        sys.exit("\n".join(["risen, and not written:", *grown]))


if __name__ == "__main__":
    main()
