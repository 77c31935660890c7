"""`dledger bundle`: one archive for a bug report."""

from __future__ import annotations

import time
from pathlib import Path

import click

from cluster.commands.local import root_option
from cluster.commands.output import emit_done, output_option
from cluster.commands.progress import progress
from cluster.local.bundle import write_bundle
from cluster.local.launcher import LocalCluster


@click.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False), required=False)
@root_option
@output_option
def bundle(out: Path | None, root: Path, output: str) -> None:
    """Write versions, settings, status, metrics and logs of the local cluster to OUT (.tar.gz).

    Secrets are masked and no message is in it. Read it before you send it: names of topics, groups
    and clients are in the logs. Works on a cluster that is stopped, too.
    """
    cluster = LocalCluster(root)
    now_s = time.time()
    if out is None:
        out = Path(time.strftime("dledger-bundle-%Y%m%d-%H%M%S.tar.gz", time.localtime(now_s)))
    with progress(f"{out}: collecting"):
        names = write_bundle(cluster, out, now_s)
    size = out.stat().st_size
    row = {"archive": str(out), "bytes": size, "files": list(names)}
    emit_done([row], output, f"{out}: {len(names)} files, {size >> 10} KiB")
