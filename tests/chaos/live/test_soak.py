"""CI's long runs, beside which its simulators run: mixed faults, power cuts.

Source: docs/spec/chaos.md 6.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from chaos.faults import Takes, kind_of

from .commands import needs, run

SECONDS_MAX = 800.0  # of a command, beside other layers

pytestmark = [pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(900)]


def test_mixed_faults_lose_nothing(tmp_path: Path) -> None:
    """Every kind that works here, every 1 to 3 seconds."""
    code, said = run(
        tmp_path / "run",
        *("--config", "conf/chaos-nightly.toml", "--seconds", "300", "--seed", "3"),
        seconds_max=SECONDS_MAX,
    )
    assert said["anomalies"] == []
    assert (said["lost"], said["doubled"], said["reordered"]) == (0, 0, 0)
    assert said["unknown_because"] == []
    assert code == 0
    assert said["acked"] > 5000
    assert len(said["faults"]["kinds"]) >= 25


def test_five_nodes_of_which_two_are_missing_lose_nothing(tmp_path: Path) -> None:
    """Faults that take a node overlap, as they never do among three."""
    needs("power-loss")
    code, said = run(
        tmp_path / "run",
        *("--config", "conf/chaos-five.toml", "--seconds", "60", "--seed", "5"),
        seconds_max=SECONDS_MAX,
    )
    assert said["anomalies"] == []
    assert said["unknown_because"] == []
    assert code == 0
    assert said["acked"] > 1000
    assert _overlaps(tmp_path / "run") > 3


def _overlaps(folder: Path) -> int:
    """Pairs of faults, one after the other, that took a node each at the same time."""
    faults = [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]
    taking = [row for row in faults if kind_of(row["kind"]).takes is Takes.NODE]
    spans = sorted((row["began"], row["ended"], row["nodes"]) for row in taking)
    return sum(
        second[0] < first[1] and not set(first[2]) & set(second[2])
        for first, second in pairwise(spans)
    )


def test_power_cuts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """On the nodes' own ext4 disks: un-synced pages really are gone."""
    needs("power-all")
    code, said = run(
        tmp_path / "run",
        *("--config", "conf/chaos-power.toml", "--seconds", "180", "--seed", "4"),
        seconds_max=SECONDS_MAX,
    )
    assert said["anomalies"] == []
    assert code == 0
    assert said["power_cuts"] >= 60
    assert said["lost_pages"] > 0
    assert said["acked_in_memory"] > 0
