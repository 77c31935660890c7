"""`dledger bench send`, small: the same code as the published run, and its own judgement."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from cluster.bench import send
from cluster.bench.disk import DiskLimits


def test_smoke(tmp_path: Path) -> None:
    """Runs each mode and window once and reports what the bars are made of."""
    options = replace(send.SendOptions.smoke(tmp_path), seconds=0.1, warm_up_seconds=0.05)
    result = send.run(asdict(options))
    rows = {(row["mode"], row["window"]): row for row in result["rows"]}
    assert set(rows) == {("single", 1), ("single", 256), ("batching", 256)}
    for row in rows.values():
        assert row["acked"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert min(row["leader_cpu_us"], row["client_cpu_us"]) > 0
        assert 1024 < row["record_size"] < 1600
    assert result["bars"]["window_1_p50_ms_max"] >= send.WINDOW_1_P50_MS_BAR


def row(mode: str, window: int, rate: float, p50_ms: float = 1.0) -> dict[str, object]:
    return {
        "mode": mode,
        "window": window,
        "messages_per_second": rate,
        "p50_ms": p50_ms,
        "record_size": 1000,
    }


def test_bars() -> None:
    slow_disk = DiskLimits(1.0, 2.0, 65536, 50_000_000.0)
    fast_disk = DiskLimits(0.1, 0.2, 65536, 900_000_000.0)
    rows = [row("single", 1, 500, 0.7), row("single", 1024, 36_000), row("batching", 1024, 36_000)]
    slow = send._judge(send.SendOptions(), slow_disk, rows)["bars"]
    fast = send._judge(send.SendOptions(), fast_disk, rows)["bars"]
    assert (slow["batching_min"], fast["batching_min"]) == (35_000, 80_000)
    assert (slow["batching_met"], fast["batching_met"]) == (True, False)
    assert slow["single_met"]
    assert (slow["window_1_p50_met"], fast["window_1_p50_met"]) == (True, False)
    assert slow["single_disk_share"] == 0.72
