"""Numbers on the command line that make sense: a wrong one is refused before anything runs."""

from __future__ import annotations

import math
from typing import Any

import click

SECONDS_MAX = 1e6  # eleven days
JOBS_MAX = 256


class _Seconds(click.FloatRange):
    """`FloatRange` lets a NaN through: it is neither too small nor too large."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return found


DURATION = _Seconds(min=0.0, min_open=True, max=SECONDS_MAX)
JOBS = click.IntRange(1, JOBS_MAX)
COUNT = click.IntRange(1)


def is_number(word: str) -> bool:
    """True if the word has decimal digits only; `str.isdigit` is true of "²", too."""
    return word.isascii() and word.isdecimal()


def seed_range(text: str) -> range:
    """Seeds FIRST..BEHIND, the last one not included and at least one. Raises ValueError."""
    first, dots, behind = text.partition("..")
    if dots and is_number(first) and is_number(behind) and int(first) < int(behind):
        return range(int(first), int(behind))
    raise ValueError("write A..B with A below B; B is not included, as in 0..2000")
