"""`dledger chaos counts FILE`: what finished runs add up to."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.counts.code_key import code_key
from chaos.counts.ledger import read_rows
from chaos.counts.page import render
from chaos.live.folder import commit
from chaos.outputs import check_file


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--write", type=click.Path(path_type=Path), help="Also into this Markdown file.")
def counts(file: Path, write: Path | None) -> None:
    """Add up what `sim --counts FILE` and `chaos run --counts FILE` have finished."""
    check_file(write)
    if write is not None and write.exists() and write.samefile(file):
        raise click.UsageError(f"{write} is the counts themselves; name another file for the page")
    page = render(read_rows(file), code_key(), commit())
    click.echo(page, nl=False)
    if write is not None:
        write.write_text(page, encoding="utf-8")
