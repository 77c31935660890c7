"""`dledger bench spark-source` in small: it measures what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


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
