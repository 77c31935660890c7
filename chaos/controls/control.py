"""The result of one negative control (docs/spec/chaos.md 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Shown:
    """`red`: the suite reported the fault under the expected name. `seen`: a description of the
    report."""

    red: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Control:
    """A run that must turn red.

    Attributes:
        name: as the command takes it.
        text: what is done.
        expected: the name under which it must be found.
        why_not: why it cannot be run here, "" when it can.
        run: (an empty folder, a seed) → what it showed.
    """

    name: str
    text: str
    expected: str
    why_not: Callable[[], str]
    run: Callable[[Path, int], Coroutine[Any, Any, Shown]]
