"""Every command of ours that a page names exists, with the options that it is given."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from cluster.cli import dledger
from commitlog.inspect.command import arguments_of
from tests.docs.pages import Command, commands, pages

# What stands for a value that the reader has to put there.
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_:]*|.*(\.\.\.|…|<).*")
# `dledger group list|describe|reset`: one of them each time.
_ALTERNATIVES = re.compile(r"[\w-]+(\|[\w-]+)+")


def complaints(words: str, *, is_whole: bool) -> Iterator[str]:
    """What our command line has against a command. `is_whole`: nothing may be missing."""
    try:
        tokens = shlex.split(words, comments=True)
    except ValueError as error:
        yield str(error)
        return
    choices = [t.split("|") if _ALTERNATIVES.fullmatch(t) else [t] for t in tokens]
    for typed in itertools.product(*choices):
        try:
            _check(list(typed)[1:], is_whole)
        except click.UsageError as error:
            yield error.format_message()


def _check(words: list[str], is_whole: bool) -> None:
    """Raises click.UsageError for what the command line would refuse."""
    command: click.Command = dledger
    context = click.Context(dledger, info_name="dledger")
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            if is_whole and not words:
                raise click.UsageError("the command ends before it says what to do")
            break
        if _PLACEHOLDER.fullmatch(words[0]):
            return  # it stands for one of the group's commands
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"there is no command {words[0]!r}")
        command = found
        context = click.Context(
            found, parent=context, info_name=words.pop(0), **found.context_settings
        )
    if command.name == "inspect":
        _check_inspect(words, is_whole)
        return
    parser = command.make_parser(context)
    try:
        values, rest, _ = parser.parse_args(list(words))
    except click.BadOptionUsage:
        if is_whole:
            raise
        values, rest, _ = parser.parse_args([*words, "VALUE"])  # its last option was named alone
    if is_whole and [word for word in rest if word not in ("…", "...")]:
        raise click.UsageError(f"too many words: {' '.join(rest)}")
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if not isinstance(value, str | tuple | list) or value in ((), []):
            if parameter.required and is_whole:
                raise click.UsageError(f"{parameter.get_error_hint(context)} is missing")
            continue
        if isinstance(parameter.type, click.Path | click.File):
            continue  # the reader's own files
        for one in [value] if isinstance(value, str) else value:
            if isinstance(one, str) and not _PLACEHOLDER.fullmatch(one):
                parameter.type.convert(one, parameter, context)


def _check_inspect(words: list[str], is_whole: bool) -> None:
    """The viewer reads its own options, with argparse."""
    if not words and not is_whole:
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments_of().parse_args(words)
    except SystemExit as stop:
        if stop.code:
            raise click.UsageError(said.getvalue().splitlines()[-1]) from None


#: Names commands that are still to come.
PLANS = "ROADMAP.md"
ALL = [command for page in pages() if page != PLANS for command in commands(page)]


@pytest.mark.parametrize("page", sorted({command.place.partition(":")[0] for command in ALL}))
def test_commands_of_a_page_are_commands_of_ours(page: str) -> None:
    wrong = [
        f"{command.place}: {command.words}: {said}"
        for command in ALL
        if command.place.startswith(f"{page}:")
        for said in complaints(command.words, is_whole=command.is_whole)
    ]
    assert not wrong, "\n".join(wrong)


def test_there_are_commands() -> None:
    whole = {command.words for command in ALL if command.is_whole}
    assert {"dledger up", "dledger consume greetings -n 1"} <= whole
    assert Command("", "dledger topic", False).words not in whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dledger up --colour red", "No such option"),
        ("dledger upp", "no command 'upp'"),
        ("dledger topic create", "missing"),
        ("dledger topic", "ends before"),
        ("dledger consume t -n many", "not a valid integer"),
        ("dledger consume t u", "too many words"),
        ("dledger status -o list|table", "not one of"),
        ("dledger inspect DIR --colour", "unrecognized"),
        ("dledger bench nothing", "no command 'nothing'"),
    ],
)
def test_what_is_wrong_is_found(words: str, said: str) -> None:
    assert any(said in one for one in complaints(words, is_whole=True))
