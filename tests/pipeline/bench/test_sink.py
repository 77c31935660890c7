"""`dledger bench spark-sink` in small: it measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.bench.everything import rows
from pipeline.bench.sink import Options, _result, run


def test_without_spark(tmp_path: Path) -> None:
    found = run(Options(rows=200, repeats=1, folder=str(tmp_path), spark=False))
    assert set(found["rows_per_s_median"]) == {
        *("encode", "loop", "encode_key_tag", "task", "direct"),
    }
    assert found["task_to_direct"] > 0
    assert all(rate > 0 for rate in found["rows_per_s_best"].values())
    assert found["encode_to_loop"] > 0


@pytest.mark.long
@pytest.mark.alone
def test_columns_are_faster_than_a_loop(tmp_path: Path) -> None:
    found = run(Options(rows=2000, repeats=1, folder=str(tmp_path), spark=False))
    assert found["encode_to_loop"] > 1


def test_bars() -> None:
    rates = {"encode": [3e6], "loop": [1e6], "spark": [40_000.0]}
    found = _result(rates, [300, 420, 380])
    assert found["bars"] == {"encode_met": True, "spark_met": False, "micro_met": True}
    assert found["encode_to_loop"] == 3
    assert [row.split()[-2] for row in rows("spark-sink", found)] == ["yes", "**no**", "yes"]
