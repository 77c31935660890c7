"""Throughput with a node away, in small; `dledger bench missing-node` is the large size."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.bench.missing_node import Found, Options, Window, enough, run, summary

WHOLE = Window(1000.0, 10.0)


def found(*without: Window) -> Found:
    return {"follower_down": [(WHOLE, one, WHOLE) for one in without]}


def test_shares_are_of_the_windows_around() -> None:
    slower = Window(500.0, 20.0)  # the machine got busy: half of it is whole
    rows: Found = {"leader_paused": [(WHOLE, Window(675.0, 30.0), slower)]}
    said = summary(rows)
    assert (said["leader_paused_share"], said["leader_paused_p99_times"]) == (0.9, 2.0)
    assert said["whole_per_second"] == 750
    assert enough(rows)


@pytest.mark.parametrize(
    ("windows", "kept"),
    [
        ([Window(800.0, 50.0)], True),
        ([Window(790.0, 10.0)], False),
        ([Window(1000.0, 51.0)], False),
        ([Window(0.0, float("inf"))], False),
        ([Window(100.0, 10.0), Window(900.0, 10.0), Window(950.0, 10.0)], True),  # the median
    ],
)
def test_the_bars_are_those_of_the_goal_table(windows: list[Window], kept: bool) -> None:
    assert enough(found(*windows)) is kept


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(120)
def test_a_paused_follower_is_measured_and_nothing_is_lost(tmp_path: Path) -> None:
    options = Options(tmp_path / "cluster", rounds=1, seconds=0.5, away=("follower_paused",))
    said = asyncio.run(run(options))
    assert said["anomalies"] == []
    assert said["lost"] == said["doubled"] == said["reordered"] == said["others"] == 0
    assert int(str(said["acked"])) > 100
    assert float(str(said["follower_paused_share"])) > 0
