"""`dledger chaos counts [FILE]`: prints the sums over finished runs."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.counts.code_key import code_keys
from chaos.counts.ledger import COUNTS_FILE, read_rows
from chaos.counts.page import bars, render
from chaos.live.folder import commit
from chaos.tools.evidence import evidence_file, evidence_option, where_by_default, write_evidence
from chaos.tools.outputs import check_file
from cluster.commands.output import report_option, to_json

_HELP = f"""Add up what `sim --counts` and `chaos run --counts` have finished.

{where_by_default(COUNTS_FILE)} As JSON: the code that is counted, and each bar with how far it is.
"""


@click.command(help=_HELP)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@evidence_option("--write", "counts.md", "Also write the page into a Markdown file.")
@report_option
def counts(file: Path | None, write: Path | None, output: str) -> None:
    """See `_HELP`."""
    file = evidence_file(COUNTS_FILE) if file is None else file
    if not file.exists():
        raise click.UsageError(f"{file} holds no counts yet; run dledger sim --counts first")
    check_file(write)
    if write is not None and write.exists() and write.samefile(file):
        raise click.UsageError(f"{write} is the counts themselves; name another file for the page")
    rows, codes = read_rows(file), code_keys()
    page = render(rows, codes, commit())
    if output == "json":
        told = [bar._asdict() | {"reached": bar.is_reached} for bar in bars(rows, codes)]
        click.echo(to_json({"code": codes, "bars": told}))
    else:
        click.echo(page, nl=False)
    if write is not None:
        write_evidence(write, page)
