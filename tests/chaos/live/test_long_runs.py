"""Real processes: courses that broke others, and a control that must turn red."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.drivers.probe import why_not
from chaos.faults import CHOREOGRAPHIES

from .commands import needs, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


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
