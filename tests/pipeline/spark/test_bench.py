"""`dledger bench spark-source` and `spark-executors` in small: they measure what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import missing


@pytest.mark.long
def test_the_source_is_measured(spark: Any, tmp_path: Path) -> None:
    from pipeline.bench.everything import PLAN, UNKNOWN, rows
    from pipeline.bench.topic_source import Options, run

    result = run(Options(folder=str(tmp_path), rows=4000, repeats=1))
    assert set(result["variants"]) == {"all", "six", "pruned", "unchecked", "pulled", "parquet"}
    assert 250 < result["row_bytes"] < 500
    for found in result["variants"].values():
        assert found["rows_per_s_best"] >= found["rows_per_s_median"] > 0
    assert result["variants"]["parquet"]["ratio_to_parquet"] == 1.0
    lines = rows("spark-source", result)
    assert len(lines) == len(PLAN["spark-source"])
    assert not [line for line in lines if UNKNOWN in line], "a line finds its figure"
    assert spark.range(3).count() == 3, "the session of others goes on"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_executors_of_a_cluster_are_measured(tmp_path: Path) -> None:
    """The drivers have processes and sessions of their own."""
    if why := missing():
        pytest.skip(why)
    from pipeline.bench.executors import Options, run

    options = Options(16_384, 4, repeats=1, counts=(1, 2), warm_ups=1, folder=str(tmp_path))
    found = run(options)
    assert found["rows"] == 16_384
    assert found["bars"]["partitions_met"]
    for figures in found["executors"].values():
        assert figures["cpu_us_a_row"] > 0
        assert figures["partitions"]["count"] == 4
        assert 1 <= figures["partitions"]["rows_spread"] < 1.01
        assert 0 < figures["partitions"]["jvm_cpu_s"] <= figures["partitions"]["seconds"] + 0.01
    assert not list(tmp_path.iterdir()), "nothing is left"
