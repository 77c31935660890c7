"""`dledger bench spark-all`: rows of its table; each bench's own test gives it what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.bench import everything
from pipeline.bench.everything import PLAN, command, rows, write


def test_rows_say_whether_the_median_meets_the_bar() -> None:
    found = {
        "rows_per_s_median": {"encode": 1_900_000.0, "spark": 60_000.0},
        "rows_per_s_best": {"encode": 2_100_000.0, "spark": 61_000.0},
        "micro_batch_ms_median": 399,
    }
    assert rows("spark-sink", found) == [
        "| sink, encoded, messages/s of one core | 2,000,000 | 1,900,000 | 2,100,000 | **no** |",
        "| Spark → cluster of three, messages/s | 50,000 | 60,000 | 61,000 | yes |",
        "| micro-batch, both ends, ms | 400 | 399 | 399 | yes |",
    ]


def test_a_bench_that_failed_is_in_the_table() -> None:
    (row,) = rows("spark-kafka", "mvn is not on the path")
    assert row == "| `spark-kafka` | | | | not measured: mvn is not on the path |"


def test_a_bench_that_says_nothing_is_no_result() -> None:
    found = everything.measure("no-such-bench", 1, "")
    assert isinstance(found, str)
    assert "no-such-bench" in found


def test_the_table(tmp_path: Path) -> None:
    write(tmp_path / "t.md", rows("spark-kafka", "x"), 5)
    text = (tmp_path / "t.md").read_text()
    assert "5 turns each" in text
    assert text.endswith("not measured: x |\n")
    assert len(PLAN) == 5


@pytest.mark.parametrize(("micro_ms", "code"), [(300, 0), (500, 1)])
def test_the_command_writes_the_table_and_exits_by_the_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_ms: int, code: int
) -> None:
    rates = {"encode": 3e6, "spark": 6e4}
    found = {"rows_per_s_median": rates, "rows_per_s_best": rates}
    found["micro_batch_ms_median"] = micro_ms  # type: ignore[assignment]
    asked: list[str] = []
    monkeypatch.setattr(everything, "measure", lambda name, *_: asked.append(name) or found)
    given = ["--only", "spark-sink", "--table", str(tmp_path / "t.md")]
    done = CliRunner().invoke(command, given)
    assert (done.exit_code, asked) == (code, ["spark-sink"]), done.output
    assert (tmp_path / "t.md").read_text().strip() in done.output
