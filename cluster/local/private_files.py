"""Files that hold secrets: their owner's alone from the first moment on, replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE_MODE = 0o600


def open_to_others(path: Path) -> str:
    """A sentence when a file can be read by others than its owner, "" when not."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return ""
    return f"{path} holds secrets and others may use it (mode {mode:o}): chmod 600 {path}"


def write_private(path: Path, text: str) -> None:
    """Write a new file and rename it over the old one, so that a reader finds one of both."""
    aside = path.with_name(path.name + ".tmp")
    aside.unlink(missing_ok=True)  # one that a crash left may be readable by others
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        aside.replace(path)
    except BaseException:  # on a full disk: nothing half-made stays
        aside.unlink(missing_ok=True)
        raise
