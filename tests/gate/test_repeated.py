"""Several whole runs in a row: the rows that are kept, when all are good, the load beside them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts import repeated
from scripts.repeated import Row, is_good, load, row_of, table

SAID = """\
== machine: limits of waits times 2.8
== flaky a/test_b.py::test_c[1]: failed among others, passed alone; outputs in x
== 1 flaky: write them into ROADMAP.md, and fix them before all else
13691 passed, 0 failed, 2 skipped
"""


def test_a_row_has_the_counts_and_the_flaky_tests_of_its_run() -> None:
    row = row_of(SAID, "c0ffee", "nothing", 630.0)
    assert (row.passed, row.failed, row.skipped, row.minutes) == (13691, 0, 2, 10.5)
    assert row.flaky == ["a/test_b.py::test_c[1]"]


def test_a_run_without_counts_is_no_row() -> None:
    with pytest.raises(ValueError, match="printed no counts"):
        row_of("== machine: …\nKilled\n", "c0ffee", "nothing", 1.0)


@pytest.mark.parametrize(
    ("failed", "flaky", "good"),
    [
        ((0, 0), (0, 0), True),
        ((0, 0), (1, 1), True),
        ((0, 0), (1, 2), False),
        ((0, 1), (0, 0), False),
    ],
)
def test_runs_are_good_without_a_failure_and_with_two_flaky_tests_at_most(
    failed: tuple[int, int], flaky: tuple[int, int], good: bool
) -> None:
    rows = [
        Row("c", "d", "l", 1.0, 9, count, 0, [f"t{number}" for number in range(names)])
        for count, names in zip(failed, flaky, strict=True)
    ]
    assert is_good(rows) is good


def test_the_table_has_a_line_for_each_run() -> None:
    rows = [row_of(SAID, "c0ffee0123456789", "nothing", 630.0)] * 2
    lines = table(rows).splitlines()
    assert len(lines) == 4
    assert "| c0ffee012345 |" in lines[-1]
    assert "| 13691, 0, 2 | a/test_b.py::test_c[1] |" in lines[-1]


def test_rows_are_kept_where_other_evidence_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLEDGER_EVIDENCE", str(tmp_path / "kept"))
    monkeypatch.setattr(repeated, "run", lambda *_: row_of(SAID, "c0ffee", "nothing", 630.0))
    assert repeated.main(["1", "--quiet"]) == 0
    file = tmp_path / "kept" / repeated.FILE
    assert [json.loads(line)["passed"] for line in file.read_text().splitlines()] == [13691]


def test_the_load_ends_with_its_block_also_when_that_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        def __init__(self, command: list[str]) -> None:
            super().__init__(command)
            begun.append(self)

    monkeypatch.setattr(subprocess, "Popen", Kept)

    def body() -> None:
        with load(tmp_path):
            assert len(begun) == repeated.LOOPS + 1
            assert all(one.poll() is None for one in begun)
            raise KeyError

    with pytest.raises(KeyError):
        body()
    assert all(one.returncode is not None for one in begun)
    assert not any(os.path.exists(f"/proc/{one.pid}") for one in begun)


def test_a_part_of_the_load_that_ends_by_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs beside less than the whole load would count for more than they are."""
    monkeypatch.setattr(repeated, "WRITER", "raise SystemExit(3)")
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def kept(command: list[str]) -> subprocess.Popen[bytes]:
        begun.append(popen(command))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", kept)
    with pytest.raises(RuntimeError, match="ended by itself"), load(tmp_path):
        begun[-1].wait()
