"""A progress bar while a command runs; without a terminal, no output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: (how much is done, what to say beside the bar)
Advance = Callable[[float, str], None]


@contextmanager
def progress_bar(total: float) -> Iterator[Advance]:
    """Gives the function that moves it. Lines printed meanwhile stand above it."""
    if not sys.stderr.isatty():
        yield lambda done, text: None
        return
    # Imported late: most runs have no terminal, and start faster without it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    shown = Progress(
        *columns,
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what is piped stays on its way
    )
    with shown:
        task = shown.add_task("", total=total)
        yield lambda done, text: shown.update(task, completed=done, description=text)
