"""`dledger bench spark-log` in small: all ways read the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.bench import made, raw_log
from pipeline.bench.everything import rows
from pipeline.bench.raw_log import Options, run
from pipeline.bench.turns import Turns
from pipeline.options import LogOptions
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches


def test_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "FILE_SIZE", 3 << 20)
    found = run(Options(8192, repeats=1, folder=str(tmp_path), spark=False))
    assert set(found["mb_per_s_median"]) == {"indexed", "searched", "loop"}
    assert all(rate > 0 for rate in found["mb_per_s_best"].values())
    assert 200 < found["row_bytes"] < 300
    assert set(found["bars"]) == {"indexed_met", "searched_met"}
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_the_yardstick_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "FILE_SIZE", 3 << 20)
    made.make_log(tmp_path, 4096)
    options = LogOptions(tmp_path, columns=raw_log.COLUMNS)
    whole = [
        row for piece in plan(options) for b in batches(options, piece) for row in b.to_pylist()
    ]
    looped = raw_log._loop(min((tmp_path / "dledger-n0" / "data").iterdir()), 300).to_pylist()
    for row in whole:
        row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
    assert looped == whole[:300]


def test_bars() -> None:
    plain = {"indexed": [1.1e9], "searched": [0.5e9], "loop": [0.2e9]}
    rates = {"all": [1.5e6], "pruned": [1e6], "two": [3e6], "parquet": [7e6]}
    cpu = {"all": [4e-6], "pruned": [1e-6], "two": [1e-6], "parquet": [2e-6]}
    parts = {"all": [{"jvm": 3e-6, "python": 1e-6}], "parquet": [{"jvm": 2e-6}]}
    found = raw_log._result(250, plain, Turns(rates, cpu, parts))
    assert found["bars"] == {
        "indexed_met": True,
        "searched_met": False,
        "all_met": True,
        "pruned_met": False,
        "parquet_met": False,
        "two_met": True,
    }
    assert found["ratios"] == {
        "all_to_parquet": {"time": 0.214, "cpu": 0.5},
        "two_to_all": {"time": 2.0, "cpu": 4.0},
    }
    assert found["cpu_us_a_row"]["all"] == 4.0
    assert found["cpu_us_by_part"] == {
        "all": {"jvm": 3.0, "python": 1.0},
        "parquet": {"jvm": 2.0, "python": 0.0},
    }
    assert found["spark"]["all"]["ratio_to_parquet"] == 0.214
    assert rows("spark-log", found)[4].endswith("| 1,200,000 | 1,500,000 | 1,500,000 | yes |")
    assert (
        rows("spark-log", found)[8]
        == "| all columns beside Parquet, CPU | 0.90 | 0.50 | 0.50 | **no** |"
    )
