"""Seeds and cases as a user writes them, for pytest's plugin and for `python -m chaos.testing`."""

from __future__ import annotations

from chaos.testing.shrink import Case, case_of
from chaos.tools.numbers import is_number, seed_range


def seeds_of(text: str) -> range:
    """A count, or FIRST..BEHIND; never empty. Raises ValueError with a sentence for the user."""
    if ".." in text:
        return seed_range(text)
    if not is_number(text) or not int(text):
        raise ValueError(f"{text} is no number of seeds; give a count, or FIRST..BEHIND")
    return range(int(text))


def a_case(text: str) -> Case:
    """A case that a failure has named. Raises ValueError with a sentence for the user."""
    try:
        return case_of(text)
    except ValueError as error:
        raise ValueError(f"{text} is no case; copy the words that a failure has printed") from error
