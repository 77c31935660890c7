"""Two hundred changes, drawn by a seed that stood here before any test was written for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from chaos.mutants.sampled.operators import Change, changes

ROOT = Path(__file__).resolve().parents[3]
#: What is changed: the Raft core, the broker's tables and what keeps them.
FOLDERS = ("dledger/core", "cluster/core", "cluster/broker/kernel/apply")
SEED = 20_261_124
COUNT = 200


class SampledMutant(NamedTuple):
    """One change of one module."""

    module: str
    change: Change

    @property
    def name(self) -> str:
        """Which line it changes, and how: "dledger.core.quorum:31 Lt becomes LtE"."""
        return f"{self.module}:{self.change.line} {self.change.what}"

    def source(self) -> str:
        """The module's text with the change made."""
        return self.change.applied(path_of(self.module).read_text(encoding="utf-8"))

    def shown(self) -> str:
        """The line before and after."""
        before = path_of(self.module).read_text(encoding="utf-8").splitlines()
        after = self.source().splitlines()
        at = self.change.line - 1
        return f"- {before[at].strip()}\n+ {after[at].strip()}"


def path_of(module: str) -> Path:
    """The file of a module."""
    return ROOT / f"{module.replace('.', '/')}.py"


def draw(seed: int = SEED, count: int = COUNT) -> list[SampledMutant]:
    """So many changes, one a line, every line that offers one as likely as the next.

    The same seed draws others when the code has changed: a count belongs to a commit.
    """
    random = Random(seed)
    offered: dict[tuple[str, int], list[Change]] = {}
    for module in _modules():
        for change in changes(path_of(module).read_text(encoding="utf-8")):
            offered.setdefault((module, change.line), []).append(change)
    lines = sorted(offered)
    chosen = random.sample(lines, min(count, len(lines)))
    return [SampledMutant(module, random.choice(offered[module, line])) for module, line in chosen]


def _modules() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name != "__init__.py":
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts)
