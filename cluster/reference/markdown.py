"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; each row has as many cells as there are heads."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """A text in one line, in which a bar begins no cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A text as code; an empty one stays empty."""
    return f"`{text}`" if text else ""
