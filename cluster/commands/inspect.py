"""`dledger inspect DIR`: the read-only viewer of `commitlog`, which needs no cluster.

Its options are its own (`dledger inspect --help`); so are its exit codes: 0 whole, 1 damaged,
2 usage.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from commitlog.errors import StoreDamaged
from commitlog.files.system import FileSystem
from commitlog.inspect import main
from commitlog.store.reader import Finding
from dledger.errors import LogDamaged


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def inspect(arguments: tuple[str, ...]) -> None:
    """Read a stopped node's files, or a RocketMQ store."""
    sys.exit(main(list(arguments), node_check=node_findings))


def node_findings(files: FileSystem, folder: Path, last_index: int) -> Iterator[Finding]:
    """The faults in the small files of a node, and in the state where its log begins."""
    from dledger.durable.small_files import flaws
    from dledger.log import log_start
    from dledger.snapshots.snapshot_files import FOLDER, SnapshotFolder

    for flaw in flaws(files, folder, last_index):
        yield Finding(str(flaw.path), -1, flaw.reason, flaw.damage)
    try:
        start = log_start.read(files, folder)
        if start is not None and files.is_dir(folder / FOLDER):
            SnapshotFolder(files, folder).prove(start)
    except StoreDamaged as error:
        yield Finding(error.path, error.position, error.reason)
    except LogDamaged as error:
        yield Finding(str(folder / log_start.FILE_NAME), -1, str(error))
