"""`dledger bench spark-history` in small: all is checked, and the planted fault is named."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.bench.history import Options, run


@pytest.mark.parametrize("seed", [1, 2])
def test_the_damaged_queue_is_named(tmp_path: Path, seed: int) -> None:
    found = run(Options(21_500, queue_operations=5000, seed=seed, folder=str(tmp_path)))
    assert (found["operations"], found["queues"]) == (21_500, 4)
    assert len(found["found"]) == 1
    assert found["bars"]["fault_named_met"]
    assert found["bars"]["all_checked_met"]
    assert not list(tmp_path.iterdir()), "nothing is left"
