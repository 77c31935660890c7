"""Which long layer passed on which tree, so that `scripts/test --long` goes on where it stopped.

    .tools/long.jsonl    one line a layer that ended: layer, tree, commit, date, counts, seconds

A layer that passed on this very tree is not run again. A tree with changes that are not committed
has no name, so nothing is kept of it and everything is run.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.layers.machine import ROOT
from scripts.layers.outcome import Counts
from scripts.layers.plan import Layer

FILE = ROOT / ".tools" / "long.jsonl"


@dataclass(frozen=True, slots=True)
class Row:
    """One run of one long layer."""

    layer: str
    tree: str
    commit: str
    date: str
    passed: int
    failed: int
    skipped: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The committed state of the checkout; `name` is empty when something is not committed."""

    name: str
    commit: str


def present_tree() -> Tree:
    """What the checkout holds."""
    changed = _git("status", "--porcelain")
    return Tree("" if changed else _git("rev-parse", "HEAD^{tree}"), _git("rev-parse", "HEAD"))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip()


class LongTable:
    """Rows of this checkout's file, oldest first."""

    def __init__(self, file: Path = FILE, tree: Tree | None = None) -> None:
        self._file, self._tree = file, tree or present_tree()

    def rows(self) -> list[Row]:
        """All rows that are whole; a line that a kill cut short is passed over."""
        rows = []
        if self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                try:
                    rows.append(Row(**json.loads(line)))
                except (ValueError, TypeError):
                    continue
        return rows

    def passed(self, layer: Layer) -> bool:
        """Did the layer pass on this tree?"""
        return any(
            row.layer == layer.name and row.tree == self._tree.name and not row.failed
            for row in self.rows()
            if self._tree.name
        )

    def add(self, layer: Layer, counts: Counts, seconds: float) -> None:
        """Note what came of a layer, if the tree has a name."""
        if not self._tree.name:
            return
        row = Row(
            layer.name,
            self._tree.name,
            self._tree.commit,
            time.strftime("%Y-%m-%d"),
            counts.passed,
            counts.failed,
            counts.skipped,
            round(seconds),
        )
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")

    def markdown(self, layers: tuple[Layer, ...]) -> str:
        """The newest run of each layer, as rows of docs/evidence.md."""
        newest = {row.layer: row for row in self.rows()}
        lines = [
            "| layer | passed, failed, skipped | minutes | commit | date |",
            "|---|---|---|---|---|",
        ]
        for layer in layers:
            row = newest.get(layer.name)
            lines.append(
                f"| {layer.name} | not run here | | | |"
                if row is None
                else f"| {layer.name} | {row.passed}, {row.failed}, {row.skipped} |"
                f" {row.seconds / 60:.0f} | {row.commit[:12]} | {row.date} |"
            )
        return "\n".join(lines)
