"""`dledger bench spark-kills` and the worked example in small: nothing lost, nothing doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.bench.kills import Options, line, run
from pipeline.demo import access_log, status_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_kills(spark: Any, tmp_path: Path) -> None:
    found = run(Options(rounds=3, rows_per_round=2000, seed=3, folder=str(tmp_path)))
    assert (found["lost"], found["doubled"]) == (0, 0), found
    assert found["killed"] >= 5
    assert found["acked"] == 8000


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_worked_example(spark: Any, tmp_path: Path) -> None:
    lines = tmp_path / "lines.log"
    lines.write_bytes(b"\n".join([*access_log(1, 3000), b"no access log at all", b""]))
    command = [sys.executable, "-m", "pipeline.demo", "--input", str(lines), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["passed"]
    assert (found["sent"], found["lost"], found["doubled"]) == (3001, 0, 0)
    assert found["killed"]
    assert found["counts"]["-"] == 1


def test_one_line_says_all_of_a_run() -> None:
    whole, lost = {"lost": 0, "doubled": 0}, {"lost": 2, "doubled": 0}
    found = {"seed": 7, "rounds": 20, "killed": 40, "acked": 105_000, "lost": 0, "doubled": 0}
    assert line({**found, "table": whole, "topic": whole}) == (
        "seed 7   rounds 20   killed 40   sent 105000   table lost 0 doubled 0   "
        "topic lost 0 doubled 0   PASS"
    )
    assert line({**found, "lost": 2, "table": whole, "topic": lost}).endswith(
        "topic lost 2 doubled 0   FAIL"
    )


def test_lines_are_those_of_an_access_log() -> None:
    lines = access_log(7, 200)
    assert lines == access_log(7, 200)
    assert lines != access_log(8, 200)
    assert {status_of(line) for line in lines} <= {"200", "304", "404", "301", "500"}
    assert status_of(b"nonsense") == "-"
