"""Seeds and cases as a user writes them, for pytest's plugin and for `python -m chaos.testing`."""

from __future__ import annotations

from chaos.testing.shrink import Case, case_of


def seeds_of(text: str) -> range:
    """A count, or FIRST..BEHIND. Raises ValueError with a sentence for the user."""
    first, between, behind = text.partition("..")
    try:
        return range(int(first), int(behind)) if between else range(int(text))
    except ValueError as error:
        raise ValueError(f"{text} is no number; give a count, or FIRST..BEHIND") from error


def a_case(text: str) -> Case:
    """A case that a failure has named. Raises ValueError with a sentence for the user."""
    try:
        return case_of(text)
    except ValueError as error:
        raise ValueError(f"{text} is no case; copy the words that a failure has printed") from error
