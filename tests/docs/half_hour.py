"""docs/first-half-hour.md as steps that can be typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .pages import ROOT, Block, Typed, blocks, read, typed

PAGE = "docs/first-half-hour.md"
_STEP = re.compile(r"^### (\d+)\. (.+)$", re.MULTILINE)
_SAVED = re.compile(r"\[[^\]]*\]\(([^)#]+)#([^)]+)\)\s+as\s+`(\w+\.py)`")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: programs to save under a name, then commands."""

    number: int
    title: str
    programs: dict[str, Block]
    commands: tuple[Typed, ...]

    def program_of(self, command: Typed) -> Block | None:
        """The program that a command runs, where it is one of this step's."""
        name = command.words.removeprefix("python ")
        return self.programs.get(name)


def steps() -> list[Step]:
    """All of them, in the page's order."""
    text = read(PAGE)
    heads = list(_STEP.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    consoles = [block for block in blocks(PAGE) if block.language == "console"]
    found = []
    for head, end in zip(heads, ends, strict=True):
        first, last = (text.count("\n", 0, place) + 1 for place in (head.start(), end))
        programs = {
            name: _program(page, heading)
            for page, heading, name in _SAVED.findall(text[head.start() : end])
        }
        lines = [one for block in consoles if first <= block.line <= last for one in typed(block)]
        found.append(Step(int(head[1]), head[2], programs, tuple(lines)))
    return found


def _program(page: str, anchor: str) -> Block:
    """The first program below a heading."""
    path = (Path(PAGE).parent / page).as_posix()
    path = (ROOT / path).resolve().relative_to(ROOT).as_posix()
    text = read(path)
    (line,) = (
        text.count("\n", 0, match.start()) + 1
        for match in re.finditer(r"^#+ +(.*?) *$", text, re.MULTILINE)
        if re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-") == anchor
    )
    return next(b for b in blocks(path) if b.line > line and b.language == "python")
