"""The long share of live chaos: mixed faults, power cuts, and the controls that must turn red."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.drivers.probe import why_not
from chaos.faults import CHOREOGRAPHIES

ROOT = Path(__file__).parents[3]
DLEDGER = Path(sys.executable).parent / "dledger"

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def run(out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """`dledger chaos run`: exit code and verdict."""
    done = subprocess.run(
        [str(DLEDGER), "chaos", "run", *arguments, "--out", str(out), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=380,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.stdout, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def needs(kind: str) -> None:
    if reason := why_not(kind):
        pytest.skip(f"not here: {reason}")


def test_mixed_faults_lose_nothing(tmp_path: Path) -> None:
    """Every kind that works here, every 1 to 3 seconds."""
    code, said = run(
        tmp_path / "run", "--config", "conf/chaos-nightly.toml", "--seconds", "60", "--seed", "3"
    )
    assert said["anomalies"] == []
    assert (said["lost"], said["doubled"], said["reordered"]) == (0, 0, 0)
    assert said["unknown_because"] == []
    assert code == 0
    assert said["acked"] > 1000
    assert len(said["faults"]["kinds"]) >= 8


def test_power_cuts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """On the nodes' own ext4 disks: un-synced pages really are gone."""
    needs("power-all")
    code, said = run(
        tmp_path / "run", "--config", "conf/chaos-power.toml", "--seconds", "50", "--seed", "4"
    )
    assert said["anomalies"] == []
    assert code == 0
    assert said["power_cuts"] >= 15
    assert said["lost_pages"] > 0
    assert said["acked_in_memory"] > 0


def test_lying_syncs_are_found_out(tmp_path: Path) -> None:
    """A negative control: a disk that says "synced" and did not, then a power cut of all."""
    needs("fsync-lies")
    config = tmp_path / "control.toml"
    config.write_text('[faults]\nkinds = ["fsync-lies"]\n')
    code, said = run(
        tmp_path / "run", "--config", str(config), "--seconds", "9", "--each", "--seed", "1"
    )
    assert code == 1
    assert said["verdict"] == "invalid"
    assert said["lost"] > 0
    assert (tmp_path / "run" / "disks" / "n0.img").exists()  # kept for a second look


def test_courses_that_broke_real_systems_break_nothing(tmp_path: Path) -> None:
    """Every choreography that works here, once."""
    code, said = run(
        tmp_path / "run",
        *("--config", "conf/chaos-nightly.toml", "--faults", "choreographies", "--each"),
        *("--seconds", "10", "--seed", "1"),
    )
    assert said["anomalies"] == []
    assert said["unknown_because"] == []
    assert code == 0
    if not why_not("power-all-before-the-sync"):
        assert said["taken_back"] > 0  # and counted, where what was on disks stayed
    assert said["log_begins"] > 0  # files were deleted, and what they held is not called lost
    assert said["operations"]["seek"]["ok"] > 0  # readers went on behind them
    assert said["faults"]["took_effect"] == sum(not why_not(k.name) for k in CHOREOGRAPHIES)
