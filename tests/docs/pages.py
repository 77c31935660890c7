"""The repository's pages, read as somebody would who types what they print.

```python          a whole program: it is run as it stands
```text            right below a program: what it prints; "..." stands for anything
```console         "$ " begins a command, the lines below it are printed
indented lines     text; a line that begins with `dledger` is a command all the same
`dledger ...`      a command, or the beginning of one
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: `sh`: a script of somebody's own, whose commands are parsed; `ini`: another program's settings.
#: Those of "Run a node" are run by tests/integration/test_run_a_node.py,
#: and on machines of their own by tests/deploy/test_three_machines.py.
LANGUAGES = frozenset({"python", "text", "console", "sh", "ini", "promql"})
_FENCE = re.compile(
    r"^( *)(```+|~~~+) *([^`\s]*)[^`\n]*\n(.*?)^\1\2 *$\n?", re.MULTILINE | re.DOTALL
)
_SPAN = re.compile(r"`(dledger [^`]+)`")
# What stands behind a command on its line: a remark, set off by two spaces or more.
_REMARK = re.compile(r"\s+#.*|\s{2,}\S.*")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        page: path below the repository's root.
        line: where its first line stands, from 1.
        language: what stands behind the fence.
        text: its lines, without the indent of the fence.
        shown: what the page says that it prints, None where it says nothing.
    """

    page: str
    line: int
    language: str
    text: str
    shown: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of ours as a page writes it; `is_whole` when it stands on a line of its own."""

    place: str
    words: str
    is_whole: bool


def pages() -> list[str]:
    """Every Markdown file of the repository, in git or not yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).exists())


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page. Raises AssertionError for a fence that is not closed."""
    text = read(page)
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        indent, _, language, body = match.groups()
        body = re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        is_output = language == "text" and found and not text[end : match.start()].strip()
        if is_output and found[-1].language == "python":
            last = found.pop()
            found.append(Block(last.page, last.line, last.language, last.text, body))
        else:
            line = text.count("\n", 0, match.start()) + 2
            found.append(Block(page, line, language, body))
        end = match.end()
    rest = _FENCE.sub("", text)
    assert "```" not in rest, f"{page}: a fence is opened and not closed, or the other way round"
    return found


def commands(page: str) -> Iterator[Command]:
    """Every command of ours that a page names."""
    for block in blocks(page):
        if block.language == "console":
            for line in typed(block):
                for part in re.split(r"[|;&]+", line.words):
                    if part.split()[:1] == ["dledger"]:
                        yield Command(block.place, part.strip(), True)
        elif block.language == "sh":
            for number, line in enumerate(block.text.splitlines()):
                if line.startswith("dledger "):
                    page_at, _, first = block.place.rpartition(":")
                    yield Command(f"{page_at}:{int(first) + number}", line, True)
    outside = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), read(page))
    for number, line in enumerate(outside.splitlines(), 1):
        place = f"{page}:{number}"
        if line.startswith("    "):
            if any(arrow in line for arrow in "─►→│"):
                continue  # a drawing
            words = line.strip().removeprefix("$ ")
            for part in [words, *re.split(r" \| ", words)[1:]]:
                if re.match(r"dledger [a-z]", part):
                    yield Command(place, _REMARK.sub("", part), True)
    for match in _SPAN.finditer(outside):
        number = outside.count("\n", 0, match.start()) + 1
        yield Command(f"{page}:{number}", " ".join(match[1].split()), False)


@dataclass(frozen=True, slots=True)
class Typed:
    """One command line of a console block; `shown` is what the page says that it prints, None for
    no word about it.
    """

    words: str
    shown: str | None


def typed(block: Block) -> Iterator[Typed]:
    """The command lines of a console block, without their prompts."""
    first, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not first, f"{block.place}: a console block begins with a command, behind '$ '"
    for part in parts:
        words, _, shown = part.partition("\n")
        yield Typed(words, shown or None)


def matches(shown: str, printed: str) -> bool:
    """Is that what the page shows?

    A line that is "..." stands for any lines, "..." in a line for anything on it, spaces for as
    many as there are.
    """
    pattern = "".join(_line(line) for line in shown.strip().splitlines())
    lines = "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())
    return re.fullmatch(pattern, lines) is not None


def _line(shown: str) -> str:
    if shown.strip() == "...":
        return r"(?:[^\n]*\n)*?"
    words = (r"[^\n]*?".join(map(re.escape, word.split("..."))) for word in shown.split())
    return r"[^\S\n]*" + r"[^\S\n]+".join(words) + r"\n"
