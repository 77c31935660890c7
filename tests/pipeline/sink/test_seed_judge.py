"""What the judge of seeded runs in Spark (tests/pipeline/spark/seed_judge.py) takes and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.spark.seed_judge import REFUSAL, complaints

RAW = {"account": "admin", "older": False, "fetch": "raw"}
PULL = RAW | {"fetch": "pull"}
SAID = f"{REFUSAL}: fetch is 'pull' and the checkpoint was begun with 'raw'"
STORED: dict[str, Any] = {
    "rounds": [RAW, PULL],
    "attempts": [4, 5],
    "error": "",
    "lost": 0,
    "doubled": 0,
}
REFUSED = STORED | {"attempts": [4, 0], "error": SAID}


@pytest.mark.parametrize("row", [STORED, REFUSED], ids=["stored", "refused"])
def test_rows_stored_once_or_refused_before_the_first_are_right(row: dict[str, Any]) -> None:
    assert complaints(row) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (STORED | {"lost": 3}, "3 rows are lost"),
        (REFUSED | {"lost": 3}, "3 rows are lost"),
        (STORED | {"doubled": 2}, "2 rows are doubled"),
        (STORED | {"rounds": [RAW], "attempts": [4]}, "not computed twice"),
        (REFUSED | {"rounds": [RAW], "attempts": [0]}, "the first computation failed"),
        (REFUSED | {"attempts": [4, 1]}, "after its first row"),
        (REFUSED | {"attempts": [4]}, "not counted"),
        (REFUSED | {"rounds": [RAW, RAW]}, "reads as the first"),
        (REFUSED | {"error": "[STREAM_FAILED] Query terminated"}, "not by a refusal"),
        (REFUSED | {"error": "cluster.errors.BrokerUnavailable: b"}, "not by a refusal"),
        (REFUSED | {"error": f"pipeline.sink.plan.PlanError: as {REFUSAL}: x"}, "not by a refusal"),
    ],
)
def test_anything_else_is_a_failure_of_the_run(row: dict[str, Any], said: str) -> None:
    assert any(said in sentence for sentence in complaints(row)), complaints(row)
