"""Where a user's own files of dledger are: local clusters, profiles of the command line."""

from __future__ import annotations

import os
from pathlib import Path


def home_folder() -> Path:
    """$DLEDGER_HOME, else ~/.dledger."""
    home = os.environ.get("DLEDGER_HOME")
    return Path(home) if home else Path.home() / ".dledger"
