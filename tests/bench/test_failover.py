"""Leaders killed under load, in small; `dledger bench failover --kills 100` is the large size."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.bench.failover import Options, run

# The bars of the published size are 0.6 s and 1.5 s; a loaded test machine gets some room.
GAP_P50_MS_MAX = 900
GAP_MS_MAX = 3000


def check(result: dict[str, object], kills: int) -> None:
    assert result["passed"], result
    assert result["kills"] == kills
    assert result["lost"] == result["doubled"] == result["reordered"] == 0
    assert int(str(result["acked"])) > 100 * kills


@pytest.mark.timeout(180)
def test_ten_leaders_killed(tmp_path: Path) -> None:
    result = run(Options(tmp_path / "cluster", kills=10))
    check(result, 10)
    assert float(str(result["gap_p50_ms"])) <= GAP_P50_MS_MAX, result
    assert float(str(result["gap_max_ms"])) <= GAP_MS_MAX, result


@pytest.mark.timeout(120)
def test_everything_killed_at_once_twice(tmp_path: Path) -> None:
    check(run(Options(tmp_path / "cluster", kills=2, all_at_once=True)), 2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_hundred_leaders_killed(tmp_path: Path) -> None:
    result = run(Options(tmp_path / "cluster", kills=100))
    check(result, 100)
    assert float(str(result["gap_p50_ms"])) <= 600, result
    assert float(str(result["gap_p99_ms"])) <= 1500, result


@pytest.mark.long
@pytest.mark.timeout(600)
def test_everything_killed_at_once_twenty_times(tmp_path: Path) -> None:
    check(run(Options(tmp_path / "cluster", kills=20, all_at_once=True)), 20)
