"""Ends the process with its parent: a pipe held by the parent alone closes when it is gone.

This works however the parent ends, also by SIGKILL, and needs no polling.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def when_parent_ends(fd: int, call: Callable[[], None]) -> None:
    """Call once when the parent has ended; needs a running event loop."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        # Nobody ever writes: readable means that the last write end was closed.
        loop.remove_reader(fd)
        os.close(fd)
        call()

    loop.add_reader(fd, readable)
