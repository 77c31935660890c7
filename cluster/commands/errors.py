"""Exit codes and ids, and how an error of any package becomes one sentence.

    0  done                                3  not there: no cluster, topic, node or file
    1  judged and failed: lost, damaged,   4  not done, try again: no leader, overloaded, refused
       below a floor; or certainly failed  5  outcome unknown: it may have happened
    2  usage or settings                  70  a bug of ours, with its traceback

These numbers are an interface: scripts depend on them. So is the id before the sentence, which
stays when that is worded anew:

    dledger[topic-not-found]: the topic x does not exist; dledger topic list shows those that do

It is the class of the error (TopicNotFound), or stands for an error of the operating system
(`SYSTEM_IDS`), or for the exit code of a command's own refusal (`CODE_IDS`).
"""

from __future__ import annotations

import errno
import re
import socket
import traceback
from typing import Any

import click

from commitlog.advice import with_advice

FAILED = 1
USAGE = 2
NOT_THERE = 3
RETRY = 4
UNKNOWN = 5

# What to try when the operating system refuses, by errno.
_SYSTEM_ADVICE = {
    errno.ENOENT: "check the path",
    errno.EEXIST: "name another one, nothing is replaced",
    errno.ENOTDIR: "name a folder",
    errno.EISDIR: "name a file",
    errno.ENOTEMPTY: "name an empty folder",
    errno.EACCES: "run it as the owner of the file, or name another one",
    errno.EPERM: "run it as a user who may",
    errno.EROFS: "name a place that can be written to",
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "free space on that disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EADDRINUSE: "end what has the port, or take another one",
    errno.EADDRNOTAVAIL: "name an address of this machine",
    errno.ECONNREFUSED: "check the address, and whether something serves there",
    errno.ETIMEDOUT: "check the address, and whether something serves there",
    errno.EIO: "look at the disk, and restore the file from a replica or a backup",
}
#: Ids of errors of the operating system, by errno.
SYSTEM_IDS = {
    errno.ENOENT: "no-such-file",
    errno.EEXIST: "file-exists",
    errno.ENOTDIR: "no-folder",
    errno.EISDIR: "is-a-folder",
    errno.ENOTEMPTY: "folder-not-empty",
    errno.EACCES: "permission-denied",
    errno.EPERM: "permission-denied",
    errno.EROFS: "read-only-disk",
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-full",
    errno.EMFILE: "too-many-open-files",
    errno.EADDRINUSE: "port-taken",
    errno.EADDRNOTAVAIL: "no-such-address",
    errno.ECONNREFUSED: "not-connected",
    errno.ETIMEDOUT: "not-connected",
    errno.EIO: "disk-error",
    socket.EAI_NONAME: "no-such-address",
}
#: Ids of errors that a command words itself, by exit code.
CODE_IDS = {FAILED: "failed", USAGE: "usage", NOT_THERE: "not-there", RETRY: "not-now"}
CODE_IDS |= {UNKNOWN: "outcome-unknown"}
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PACKAGES = {"commitlog", "dledger", "cluster", "chaos", "pipeline"}


class CommandError(click.ClickException):
    """An error with its exit code; the text is one sentence: the event, and one thing to try."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # ours differs per error

    def show(self, file: Any = None) -> None:
        """Print the sentence to standard error, or to `file`."""
        click.echo(f"dledger[{error_id(self)}]: {self.format_message()}", err=True, file=file)


def kebab(name: str) -> str:
    """TopicNotFound → topic-not-found."""
    return _WORD.sub("-", name).lower()


def error_id(error: BaseException) -> str:
    """Words joined with "-" by which a script, or a reader of docs, knows an error again."""
    if isinstance(error, CommandError):
        cause = error.__cause__
        if cause is not None and is_expected(cause):
            return error_id(cause)
        return CODE_IDS.get(error.exit_code, "failed")
    if type(error).__module__.partition(".")[0] in _PACKAGES:
        return kebab(type(error).__name__)
    if isinstance(error, OSError):
        return SYSTEM_IDS.get(error.errno or 0, "system-error")
    return kebab(type(error).__name__)


def usage_text(error: click.UsageError) -> str:
    """How the command is called, then the mistake and where it is explained."""
    context = error.ctx
    message = error.format_message().rstrip(".")
    path = context.command_path if context else "dledger"
    said = f"dledger[usage]: {with_advice(message, f'{path} --help explains it')}"
    return f"{context.get_usage()}\n{said}" if context else said


def exit_code_of(error: BaseException) -> int:
    """The exit code of an error, from its attributes `outcome`, then `retriable`."""
    outcome = getattr(error, "outcome", None)
    if getattr(outcome, "name", "") == "UNKNOWN":
        return UNKNOWN
    if isinstance(error, FileNotFoundError):
        return NOT_THERE
    if getattr(error, "retriable", False) or isinstance(error, ConnectionError | TimeoutError):
        return RETRY
    if type(error).__name__.endswith(
        ("MissingExtra", "UsageError", "ConfigError", "SettingsError", "OptionError")
    ):
        return USAGE
    return FAILED


def is_expected(error: BaseException) -> bool:
    """True for errors with advice; any other is a bug of ours and keeps its traceback."""
    package = type(error).__module__.partition(".")[0]
    return package in _PACKAGES or isinstance(error, OSError)


def sentence_of(error: Exception) -> str:
    """The event and one thing to try, also for errors of the operating system."""
    if not isinstance(error, OSError):
        return str(error)
    named = f" ({error.filename})" if error.filename else ""
    what = f"{error.strerror or error}{named}"
    return with_advice(what, _SYSTEM_ADVICE.get(error.errno or 0, "check what the command names"))


def crash_report(error: BaseException) -> str:
    """The text for a bug: the traceback, then how to report it."""
    trace = "".join(traceback.format_exception(error))
    return f"{trace}\ndledger: this is a bug; please report it with the lines above"
