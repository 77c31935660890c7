"""A node with syncs that can be switched off, like fsync=off of other logs: for a negative control
only.

    <node>/fsync-off    while this file exists, fsync and fdatasync return at once

The product has no such setting for the replicated log. The switch is a file, so that a node formats
and starts in good order and can be made careless under load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from chaos.live.node_hooks import FOLDER_VARIABLE
from chaos.live.node_main import HookedNode
from cluster.local.node_main import main

SWITCH = "fsync-off"


def make_switchable(switch: Path) -> None:
    """Every sync of this process looks at the switch first."""
    for name in ("fsync", "fdatasync"):
        setattr(os, name, _unless(switch, getattr(os, name)))


def _unless(switch: Path, sync: Callable[[int], None]) -> Callable[[int], None]:
    def maybe(fd: int) -> None:
        if not switch.exists():
            sync(fd)

    return maybe


if __name__ == "__main__":
    make_switchable(Path(os.environ[FOLDER_VARIABLE]) / SWITCH)
    sys.exit(main(HookedNode))
