"""Exit codes, and how an error of any package becomes one sentence and one of them.

    0  done                                3  not there: no cluster, topic, node or file
    1  judged and failed: lost, damaged,   4  not done, try again: no leader, overloaded, refused
       below a floor; or certainly failed  5  outcome unknown: it may have happened
    2  usage or settings                  70  a bug of ours, with its traceback

These numbers are an interface: scripts depend on them.
"""

from __future__ import annotations

import traceback
from typing import Any

import click

FAILED = 1
USAGE = 2
NOT_THERE = 3
RETRY = 4
UNKNOWN = 5

_PACKAGES = {"commitlog", "dledger", "cluster", "chaos", "pipeline"}


class CommandError(click.ClickException):
    """One sentence that says what happened and what to do, and the exit code."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # ours differs per error

    def show(self, file: Any = None) -> None:
        click.echo(f"dledger: {self.format_message()}", err=True, file=file)


def exit_code_of(error: BaseException) -> int:
    """Codes from what an error says about itself: `outcome` first, then `retriable`."""
    outcome = getattr(error, "outcome", None)
    if getattr(outcome, "name", "") == "UNKNOWN":
        return UNKNOWN
    if isinstance(error, FileNotFoundError):
        return NOT_THERE
    if getattr(error, "retriable", False) or isinstance(error, ConnectionError | TimeoutError):
        return RETRY
    if type(error).__name__.endswith(("UsageError", "ConfigError", "SettingsError", "OptionError")):
        return USAGE
    return FAILED


def is_expected(error: BaseException) -> bool:
    """Errors that say what to do; anything else is a bug of ours and keeps its traceback."""
    package = type(error).__module__.partition(".")[0]
    return package in _PACKAGES or isinstance(error, OSError)


def crash_report(error: BaseException) -> str:
    """What to print for a bug: the traceback, then what to do with it."""
    trace = "".join(traceback.format_exception(error))
    return f"{trace}\ndledger: this is a bug; please report it with the lines above"
