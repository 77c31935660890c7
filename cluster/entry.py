"""`dledger` as it is installed: starts `cli.py`, or names the extra that is missing."""

from __future__ import annotations

import sys

from cluster.extras import MissingExtra, missing_extra

USAGE = 2


def main() -> None:
    """Run the command line; exit code 2 when this was installed without its packages."""
    try:
        from cluster.cli import main as dledger
    except ImportError as error:
        missing = missing_extra(error)
        if not isinstance(missing, MissingExtra):
            raise
        sys.stderr.write(f"dledger[missing-extra]: {missing}\n")
        sys.exit(USAGE)
    dledger()
