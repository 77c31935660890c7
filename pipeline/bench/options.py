"""Options that several benches have."""

from __future__ import annotations

import click

repeats_option = click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="The median decides.",
)
folder_option = click.option(
    "--folder", default="", help="Where to make what the run needs; it goes away again."
)
