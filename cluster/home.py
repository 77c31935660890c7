"""A user's own files of dledger: where they are, and how those with secrets are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE_MODE = 0o600


def home_folder() -> Path:
    """$DLEDGER_HOME, else ~/.dledger."""
    home = os.environ.get("DLEDGER_HOME")
    return Path(home) if home else Path.home() / ".dledger"


def open_to_others(path: Path) -> str:
    """A sentence when a file can be read by others than its owner, "" when not."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return ""
    return f"{path} holds secrets and others may use it (mode {mode:o}): chmod 600 {path}"


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner may read, and rename it over the old one: a reader
    finds one of both."""
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
