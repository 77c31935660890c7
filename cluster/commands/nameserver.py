"""`dledger nameserver`: one name server in the foreground, by the options of its process."""

from __future__ import annotations

import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def nameserver(arguments: tuple[str, ...]) -> None:
    """Run one name server in the foreground until SIGTERM; --help lists the options."""
    from cluster.local.nameserver_main import main

    sys.exit(main(arguments, "dledger nameserver"))
