"""`dledger chaos report DIR`: the page of a run's folder, made again."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.report.page import write_report


@click.command()
@click.argument("target", type=click.Path(path_type=Path, exists=True, file_okay=False))
def report(target: Path) -> None:
    """Write the folder's report.html anew, from its files alone."""
    try:
        click.echo(write_report(target))
    except (OSError, ValueError, KeyError) as error:
        raise click.UsageError(f"{target} is no folder of a finished run: {error}") from error
