"""How far a command is that takes longer than two seconds, on stderr.

    a terminal   a bar, removed at the end
    else         a line every two seconds; none where DLEDGER_PROGRESS is "no"

A thread tells it, so work that cannot count shows its seconds, and the work itself does no more
than name a number. stdout is never written to: what a command prints there, as with `-o json`, is
the same.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import click

TOLD_SECONDS = 2.0
"""Work that takes longer says how far it is; so long is also between two lines."""
_DRAWN_SECONDS = 0.2

#: Takes the number that is done by now.
Done = Callable[[int], None]


@contextlib.contextmanager
def progress(what: str, last: int | None = None) -> Iterator[Done]:
    """Tell how far the work within is; gives the function that takes the number that is done.

    Args:
        what: the work and its unit, as "n0: entry".
        last: the number at which it is done; None when it is not known.
    """
    work = _Work(what, last)
    if os.environ.get("DLEDGER_PROGRESS") == "no" and not sys.stderr.isatty():
        yield work.note
        return
    teller = threading.Thread(target=work.tell, name="progress", daemon=True)
    teller.start()
    try:
        yield work.note
    finally:
        work.over.set()
        teller.join()


class _Work:
    """A number that one thread notes and another one tells."""

    def __init__(self, what: str, last: int | None) -> None:
        self._what, self._last, self._done = what, last, 0
        self._began = time.monotonic()
        self.over = threading.Event()

    def note(self, done: int) -> None:
        self._done = done

    def tell(self) -> None:
        """Run by the thread, until the work is over."""
        if self.over.wait(TOLD_SECONDS):
            return
        if sys.stderr.isatty():
            self._draw()
            return
        while True:  # until the work is over
            click.echo(self.text(), err=True)
            if self.over.wait(TOLD_SECONDS):
                return

    def text(self) -> str:
        """The line."""
        if self._last is not None:
            return f"{self._what} {self._done} of {self._last}"
        if self._done:
            return f"{self._what} {self._done}"
        return f"{self._what}, {time.monotonic() - self._began:.0f} s so far"

    def _draw(self) -> None:
        # Imported late: few runs get here, and each starts faster without it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        shown = Progress(
            BarColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with shown:
            task = shown.add_task("", total=self._last)
            while True:  # until the work is over
                shown.update(task, completed=self._done, description=self.text(), refresh=True)
                if self.over.wait(_DRAWN_SECONDS):
                    return
