"""Leaders killed under load, in small; `dledger bench failover --kills 100` is the large size.

Every suite kills one and judges what was lost; how long it took is judged in the long layer.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chaos.bench import failover
from chaos.bench.failover import Options, run
from chaos.drivers import shim
from tests.waiting import limit

# The bars, 0.6 s and 1.5 s, are for what the command prints on a quiet machine. One election that
# the load of others stretches must not fail a test: only a broken rule goes beyond these limits.
GAP_P50_MS_MAX = 900
GAP_MS_MAX = 3000


def check(result: dict[str, object], kills: int) -> None:
    assert result["passed"], result
    assert result["kills"] == kills
    assert result["lost"] == result["doubled"] == result["reordered"] == result["others"] == 0
    assert int(str(result["acked"])) > 0


def test_a_leader_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "GAP_SECONDS_MAX", limit(20))
    result = failover.run(Options(tmp_path / "cluster", kills=1, rate=200))
    check(result, 1)
    assert 0 < float(str(result["gap_p50_ms"])) == float(str(result["gap_max_ms"]))


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(180)
def test_ten_leaders_killed(tmp_path: Path) -> None:
    result = run(Options(tmp_path / "cluster", kills=10))
    check(result, 10)
    assert int(str(result["acked"])) > 1000
    assert float(str(result["gap_p50_ms"])) <= GAP_P50_MS_MAX, result
    assert float(str(result["gap_max_ms"])) <= GAP_MS_MAX, result


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(120)
def test_everything_killed_at_once_twice(tmp_path: Path) -> None:
    check(run(Options(tmp_path / "cluster", kills=2, all_at_once=True)), 2)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not() or "works here")
@pytest.mark.timeout(120)
def test_l5_while_the_leaders_disk_hangs_another_leads(tmp_path: Path) -> None:
    result = run(Options(tmp_path / "cluster", kills=1, hang_seconds=8.0))
    check(result, 1)
    assert float(str(result["moved_max_ms"])) <= 5000, result


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_forty_leaders_killed(tmp_path: Path) -> None:
    result = run(Options(tmp_path / "cluster", kills=40))
    check(result, 40)
    assert float(str(result["gap_p50_ms"])) <= GAP_P50_MS_MAX, result
    assert float(str(result["gap_p99_ms"])) <= GAP_MS_MAX, result


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_everything_killed_at_once_twenty_times(tmp_path: Path) -> None:
    check(run(Options(tmp_path / "cluster", kills=20, all_at_once=True)), 20)


def test_peers_runs_the_script_of_the_checkout_and_returns_its_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "bench"
    script.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\nexit 7\n')
    script.chmod(0o755)
    assert failover.beside_peers(2, script) == 7
    assert (tmp_path / "asked").read_text() == "failover kills=2\n"
    assert failover.PEERS.exists()


def test_peers_without_a_checkout_says_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="clone the project"):
        failover.beside_peers(1, tmp_path / "none")


def test_peers_with_another_kind_of_fault_is_refused() -> None:
    done = CliRunner().invoke(failover.command, ["--peers", "--hang"])
    assert done.exit_code == 2
    assert "leave out the rest" in done.output
