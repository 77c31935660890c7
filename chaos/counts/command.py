"""`dledger chaos counts FILE`: what finished runs add up to."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.counts.code_key import code_key
from chaos.counts.ledger import read_rows
from chaos.counts.page import bars, render
from chaos.live.folder import commit
from chaos.outputs import check_file
from cluster.commands.output import report_option, to_json


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--write", type=click.Path(path_type=Path), help="Also into this Markdown file.")
@report_option
def counts(file: Path, write: Path | None, output: str) -> None:
    """Add up what `sim --counts FILE` and `chaos run --counts FILE` have finished.

    As JSON: the code that is counted, and each bar with how far it is.
    """
    check_file(write)
    if write is not None and write.exists() and write.samefile(file):
        raise click.UsageError(f"{write} is the counts themselves; name another file for the page")
    rows, code = read_rows(file), code_key()
    page = render(rows, code, commit())
    if output == "json":
        told = [bar._asdict() | {"reached": bar.is_reached} for bar in bars(rows, code)]
        click.echo(to_json({"code": code, "bars": told}))
    else:
        click.echo(page, nl=False)
    if write is not None:
        write.write_text(page, encoding="utf-8")
