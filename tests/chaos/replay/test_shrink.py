"""Simulated runs again: the same step for step, with fewer faults, from a folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.live.command import chaos
from chaos.replay import folder, table
from chaos.replay.shrink import shrink
from chaos.replay.table import markdown, median_left, read_rows
from chaos.report.serve import render_index
from chaos.sim.command import sim
from chaos.sim.course import FROM_SEED, Course
from chaos.sim.runner import Plan

PLAN = Plan(4, 5, 3, 15.0)


def _run(*words: str | Path) -> Result:
    return CliRunner().invoke(chaos, [str(word) for word in words])


def test_a_run_that_leaves_nothing_out_is_the_whole_run() -> None:
    whole = PLAN.run(4)
    everything = frozenset(one.number for one in whole.begun)
    again = replace(PLAN, course=Course(kept=everything, salt=3)).run(4)
    assert len(everything) >= 3
    assert (again.trace_hash, again.begun) == (whole.trace_hash, whole.begun)


def test_only_what_is_kept_is_carried_out_and_as_it_was_drawn() -> None:
    whole = PLAN.run(4)
    some = whole.begun[1::2]
    kept = Course(kept=frozenset(one.number for one in some))
    result = replace(PLAN, course=kept).run(4)
    drawn = [(one.number, one.at, one.kind, one.machine) for one in some]
    assert [(one.number, one.at, one.kind, one.machine) for one in result.begun] == drawn
    assert result.trace_hash != whole.trace_hash
    salted = replace(PLAN, course=replace(kept, salt=1)).run(4)
    assert [one.kind for one in salted.begun] == [one.kind for one in some]
    assert salted.trace_hash != result.trace_hash


def test_a_valid_run_cannot_be_made_smaller() -> None:
    assert shrink(Plan(4, 5, 3, 5.0), 4) is None
    done = _run("shrink", "--seed", "4", "--seconds", "3")
    assert done.exit_code == 2
    assert "no violation" in done.output


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that votes for everybody who asks."""
    monkeypatch.setattr("dledger.core.quorum.majority", lambda voters: 1)


@pytest.mark.usefixtures("broken")
def test_a_failing_run_becomes_smaller_and_its_folder_repeats_it(tmp_path: Path) -> None:
    done = _run("shrink", "--seed", "1", "--nodes", "3", "--out", tmp_path / "run", "-o", "json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["faults_left"] <= said["faults_before"]
    found = folder.load(tmp_path / "run")
    assert found.violation == said["violation"]
    assert f"{found.plan.again(1)} -v" == said["again"]
    again = _run("replay", tmp_path / "run")
    assert again.exit_code == 1
    assert "the same trace" in again.output
    assert f"VIOLATION {found.violation}" in again.output


@pytest.mark.usefixtures("broken")
def test_a_schedule_is_made_smaller_too(tmp_path: Path) -> None:
    config = tmp_path / "faults.toml"
    config.write_text("[run]\nseconds = 20\n[faults]\nkinds = ['partition', 'pause']\n")
    done = _run("shrink", "--seed", "2", "--config", config, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert f"--config {config} --keep " in done.output
    assert _run("replay", tmp_path / "run").exit_code == 1
    again = _run("shrink", tmp_path / "run", "--out", tmp_path / "smaller")
    assert f"again       dledger chaos replay {tmp_path / 'smaller'}" in again.output


def test_a_seed_is_kept_in_a_folder(tmp_path: Path) -> None:
    words = ["--seed", "4", "--nodes", "3", "--seconds", "6", "--keep", "0", "--out", str(tmp_path)]
    assert CliRunner().invoke(sim, words).exit_code == 0
    assert folder.load(tmp_path).plan.again(4).endswith("--seconds 6 --keep 0")
    done = _run("replay", tmp_path)
    assert (done.exit_code, "the same trace" in done.output) == (0, True)
    shown = render_index(tmp_path.parent)
    assert "<td>valid</td>" in shown
    assert "<td>1 of 1</td>" in shown


def test_other_code_gives_another_trace_and_that_is_said(tmp_path: Path) -> None:
    folder.save(tmp_path, PLAN, replace(PLAN.run(4), trace_hash="0" * 16), "")
    done = _run("replay", tmp_path)
    assert done.exit_code == 2
    assert "another trace than the recorded 0000000000000000" in done.output


def test_a_mutant_is_taken_out_in_a_process_of_its_own(tmp_path: Path) -> None:
    name = "term-not-persisted"
    done = _run("shrink", "--mutant", name, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert f"python -m chaos.mutants.within {name} sim" in done.output
    assert folder.load(tmp_path / "run").mutant == name
    again = _run("replay", tmp_path / "run", "-o", "json")
    assert again.exit_code == 1
    assert json.loads(again.output)["same"] is True


@pytest.mark.parametrize(
    "words",
    [
        ["shrink"],
        ["shrink", "--mutant", "no-such-rule"],
        ["shrink", "--mutant", "body-checksum-not-verified"],
        ["replay", "."],
        ["shrink", ".", "--seed", "1"],
    ],
)
def test_wrong_use_is_said(words: list[str]) -> None:
    assert _run(*words).exit_code == 254


def test_the_table_counts_what_is_left(tmp_path: Path) -> None:
    row = {"mutant": "m", "violation": "v", "again": "dledger sim --seed 1", "kinds": ["kill"]}
    rows = [row | {"before": before, "left": left} for before, left in ((9, 0), (20, 3), (4, 2))]
    assert median_left(rows) == 2
    page = markdown(rows, "abc")
    assert "3 failures: median 2 faults left (bar 8), 9 before, at most 3 left" in page
    assert "Of the 2 that need a fault at all: median 2.5 (bar 8)." in page
    assert "those of commit abc;" in page
    mixed = markdown([*rows, rows[0] | {"commit": "def"}], "abc")
    assert "those of commit abc and def;" in mixed
    assert "| m | v | 20 | 3 | kill | `python -m chaos.mutants.within m sim --seed 1` |" in page
    (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_rows(tmp_path / "rows") == rows
    assert read_rows(None) == []


def test_the_table_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def shrink_next(name: str, first: int) -> table.Row | None:
        asked.append((name, first))
        failing = [seed for seed in (2, 5, 9) if seed >= first] if name == "a" else []
        return {"mutant": name, "seed": failing[0]} if failing else None

    monkeypatch.setattr(table, "shrink_next", shrink_next)
    found = list(table.shrink_mutants(["a", "b"], 3, [{"mutant": "a", "seed": 2}]))
    assert [(row["mutant"], row["seed"]) for row in found] == [("a", 5), ("a", 9)]
    assert asked == [("a", 3), ("a", 6), ("b", 0)], "a seed that is known is not run again"


def test_every_fault_is_the_course_that_says_nothing() -> None:
    assert FROM_SEED.words() == ""
    assert Course(kept=frozenset()).words() == "--keep none"
    assert Course(kept=frozenset({7, 3}), salt=2).words() == "--keep 3,7 --salt 2"


def test_failures_that_need_no_fault_do_not_hide_those_that_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of them would make the median 0: the bar holds for the others alone, too."""
    row = {"mutant": "m", "violation": "v", "again": "", "kinds": [], "seed": 0, "before": 12}
    rows = tmp_path / "rows"
    monkeypatch.setattr(table, "shrink_mutants", lambda *_: iter(()))
    for most, code in ((8, 0), (9, 1)):
        left = [row | {"left": number} for number in (0, 0, 0, most, most)]
        rows.write_text("".join(json.dumps(one) + "\n" for one in left))
        done = _run("shrunk", "--resume", rows)
        assert done.exit_code == code
        assert f"5 failures, median 0 faults left; 2 need a fault, median {most}" in done.output
    found = json.loads(_run("shrunk", "--resume", rows, "-o", "json").output)
    assert (found["need_a_fault"], found["median_left_of_those"]) == (2, 9)
