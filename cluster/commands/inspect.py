"""`dledger inspect DIR`: the read-only viewer of `commitlog`, which needs no cluster.

Its options are its own (`dledger inspect --help`); so are its exit codes: 0 whole, 1 damaged,
2 usage.
"""

from __future__ import annotations

import sys

import click

from commitlog.inspect import main


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def inspect(arguments: tuple[str, ...]) -> None:
    """Read a stopped node's files, or a RocketMQ store."""
    sys.exit(main(list(arguments)))
