"""Commands that look again and again: a look that fails is told, and the next one follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import click

from cluster.commands.errors import RETRY, CommandError
from cluster.errors import ClusterError

T = TypeVar("T")

WATCH_SECONDS = 1.0
"""Between two looks; with less the screen flickers."""


def passing(error: CommandError | ClusterError) -> str:
    """The sentence of a failed look that the next one may cure.

    Raises `error` itself when asking again cures nothing: a wrong name, a missing right.
    """
    if isinstance(error, CommandError):
        if error.exit_code != RETRY:
            raise error
        return error.message
    if not error.retriable:
        raise error
    return error.happened


def looks(look: Callable[[], T], *, watch: bool, seconds: float = WATCH_SECONDS) -> Iterator[T]:
    """Yield the result of `look`: once, or with `watch` every `seconds` until Ctrl-C.

    Raises what the first look raises; a later one that fails is told on standard error, as a
    leader that moves must not end what somebody watches.
    """
    found = look()
    while True:  # ends without `watch`, or by Ctrl-C
        yield found
        if not watch:
            return
        found = _next(look, seconds)


def _next(look: Callable[[], T], seconds: float) -> T:
    while True:  # ends with a look that finds something, or by Ctrl-C
        time.sleep(seconds)
        try:
            return look()
        except (CommandError, ClusterError) as error:
            click.echo(passing(error), err=True)
