"""`dledger chaos report DIR`: the page of a run's folder, made again."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.live.evidence_files import DAMAGE, sentence, wrong_with
from chaos.report.page import write_report


@click.command()
@click.argument("target", type=click.Path(path_type=Path, exists=True, file_okay=False))
def report(target: Path) -> None:
    """Write the folder's report.html anew, from its files alone."""
    try:
        click.echo(write_report(target, anew=True))
    except DAMAGE as error:
        # verdict.json is not listed, so nobody can tell damage in it from a mistake of the page.
        said = "; ".join(wrong_with(target)[0]) or sentence(error)
        raise click.UsageError(f"{target} is no folder of a run, or is damaged: {said}") from error
