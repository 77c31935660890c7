"""Error texts in two parts: the event and, behind "; ", one thing to try.

A text that has both parts is taken as it is. A text without advice, such as one from another
program, gets the advice of its error class, so that each error names a next step.
"""

from __future__ import annotations

from typing import ClassVar

BETWEEN = "; "


class Advised(Exception):
    """Base of errors that people read.

    Attributes:
        advice: what to try where the text says nothing about it; a phrase without a full stop.
            Every class that is raised has one, its own or its base's.
        happened: the text as it was given.
    """

    advice: ClassVar[str] = ""

    def __init__(self, text: str = "") -> None:
        self.happened = text
        super().__init__(with_advice(text, self.advice))


def with_advice(text: str, advice: str) -> str:
    """`text`, with `advice` behind it unless it has some of its own, or there is none."""
    return text if BETWEEN in text or not text or not advice else f"{text}{BETWEEN}{advice}"
