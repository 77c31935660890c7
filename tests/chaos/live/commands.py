"""`dledger chaos run` as a command, for tests of long runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.drivers.probe import why_not
from tests.waiting import limit

ROOT = Path(__file__).parents[3]
DLEDGER = Path(sys.executable).parent / "dledger"


def run(out: Path, *arguments: str, seconds_max: float = 380) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict; `seconds_max` on a quiet machine."""
    done = subprocess.run(
        [str(DLEDGER), "chaos", "run", *arguments, "--out", str(out), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=limit(seconds_max),
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.stdout, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def needs(kind: str) -> None:
    if reason := why_not(kind):
        pytest.skip(f"not here: {reason}")
