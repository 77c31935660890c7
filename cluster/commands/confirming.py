"""The question before something is deleted; `--yes` answers it beforehand."""

from __future__ import annotations

import sys

import click

from cluster.commands.errors import USAGE, CommandError

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm_deletion(name: str, question: str, yes: bool) -> None:
    """Returns when it is wanted. Raises click.Abort for a no.

    Raises CommandError where there is neither --yes nor a terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            f"{name} was not deleted, since nobody can be asked here; --yes deletes it", USAGE
        )
    click.confirm(question, abort=True)
