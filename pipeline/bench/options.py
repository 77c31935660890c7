"""Options of several benches, and settings of the Spark sessions that they measure in."""

from __future__ import annotations

import click

from cluster.commands.bench import existing_folder

repeats_option = click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="The median decides.",
)


def _existing(_: click.Context, __: click.Parameter, name: str) -> str:
    return existing_folder(name)


folder_option = click.option(
    "--folder",
    default="",
    callback=_existing,
    help="Where to make what the run needs; it goes away again.",
)

#: No progress bar among the figures, and no address but this machine's own.
LOCAL = {"spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1"}
#: Reads are cut into tasks as their source says, and no otherwise.
AS_CUT = {**LOCAL, "spark.sql.adaptive.enabled": "false"}
