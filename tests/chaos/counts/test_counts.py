"""Counts add up over runs, start again with other code, and are never doubled."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from chaos.counts import ledger
from chaos.counts.code_key import code_key, tree_key
from chaos.counts.page import render
from chaos.live.command import chaos
from chaos.mutants.within import _VARIABLE
from chaos.progress import progress_bar
from chaos.sim.command import sim
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan, run_plan

PLAN = Plan(0, 6, 3, 3.0)


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "code_key", lambda: "0ther")


def _file(folder: Path, text: str, name: str = "a.py") -> list[Path]:
    (folder / name).write_text(text)
    return [folder / name]


def test_only_what_python_sees_changes_the_key(tmp_path: Path) -> None:
    before = tree_key(_file(tmp_path, 'def f():\n    """Words."""\n    return 1\n'))
    same = 'def f():  # why\n\n    """Other words."""\n    return (1)\n'
    assert tree_key(_file(tmp_path, same)) == before
    assert tree_key(_file(tmp_path, "def f():\n    return 2\n")) != before
    assert tree_key(_file(tmp_path, "def f():\n    return 1\n")) == before
    assert tree_key(_file(tmp_path, "def f():\n    return 1\n", "b.py")) != before
    assert len(code_key()) == 12


def test_a_ledger_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "counts.jsonl"
    whole = run_plan(PLAN, jobs=2)
    first = run_plan(PLAN, ledger=path)
    again = run_plan(PLAN, ledger=path)
    assert len(path.read_text().splitlines()) == 1
    assert first.cpu_seconds == again.cpu_seconds, "nothing was run a second time"
    for totals in (first, again):
        assert (totals.seeds, totals.events, totals.acked) == (6, whole.events, whole.acked)


def test_a_line_that_was_cut_short_is_run_again_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    run_plan(PLAN, ledger=path)
    path.write_text(path.read_text()[:-10])
    assert run_plan(PLAN, ledger=path).seeds == 6
    assert len(ledger.read_rows(path)) == 1


def test_other_runs_of_the_same_seeds_are_counted_apart(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    for plan in (PLAN, replace(PLAN, profile=Profile(membership=True)), replace(PLAN, seconds=2.0)):
        run_plan(plan, ledger=path)
    assert len(ledger.rows_of_this_code(path)) == 3


def test_chunks_of_overlapping_ranges_are_the_same() -> None:
    found = [(c.first, c.behind) for c in Plan(150, 420, 3, 3.0).chunks()]
    assert found == [(150, 200), (200, 300), (300, 400), (400, 420)]


def test_other_code_starts_the_count_again(tmp_path: Path, other_code: None) -> None:
    path = tmp_path / "counts.jsonl"
    ledger.add_row(path, ledger.SIMULATOR, "drawn", {"chunk": PLAN.key})
    path.write_text(path.read_text().replace("0ther", code_key()))
    assert ledger.rows_of_this_code(path) == []
    assert run_plan(PLAN, ledger=path).seeds == 6
    assert [row["code"] for row in ledger.read_rows(path)] == [code_key(), "0ther"]


def _verdict(folder: str, cuts: int, seconds: float, word: str = "valid") -> dict[str, object]:
    sums = {"acked": 1000, "lost": 0, "doubled": 0, "reordered": 0, "power_cuts": cuts, "seed": 1}
    faults = {"took_effect": 7}
    return {**sums, "verdict": word, "folder": folder, "load_seconds": seconds, "faults": faults}


def test_the_page_adds_everything_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, page = tmp_path / "counts.jsonl", tmp_path / "COUNTS.md"
    run_plan(PLAN, ledger=path)
    run_plan(replace(PLAN, first=6, behind=9), ledger=path)
    ledger.add_live_run(path, "chaos-power", _verdict("runs/one", 1200, 1800.0))
    ledger.add_live_run(path, "chaos-power", _verdict("runs/two", 300, 5400.0, "unknown"))
    done = CliRunner().invoke(chaos, ["counts", str(path), "--write", str(page)])
    assert done.exit_code == 0, done.output
    assert page.read_text() == done.output
    assert code_key() in done.output
    assert "| drawn | 9 |" in done.output
    assert "| chaos-power | 2 | 1 | 2.00 | 1.50 | 14 | 1,500 | 2,000 | 0 |" in done.output
    later = render(ledger.read_rows(path), "0ther", "")
    assert "| drawn" not in later
    assert "Before, of 1 other states of the code: 9 seeds, 1,500 cuts." in later


def test_nothing_is_counted_with_a_rule_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_VARIABLE, "majority-off-by-one")
    words = ["--seeds", "0..2", "--seconds", "3", "--counts", str(tmp_path / "counts.jsonl")]
    assert CliRunner().invoke(sim, words).exit_code == 2
    assert not (tmp_path / "counts.jsonl").exists()


def test_the_command_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    words = ["--seeds", "0..2", "--nodes", "3", "--seconds", "3", "--counts", str(path)]
    assert CliRunner().invoke(sim, words).exit_code == 0
    row = json.loads(path.read_text())
    assert (row["arena"], row["profile"], row["seeds"]) == ("simulator", "drawn", 2)


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    piped = io.StringIO()
    monkeypatch.setattr("sys.stderr", piped)
    with progress_bar(10) as advance:
        advance(5, "half")
    assert piped.getvalue() == ""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("rich.console.Console", lambda stderr: Console(file=terminal, width=80))
    with progress_bar(10) as advance:
        advance(5, "half of it")
    assert "half of it" in terminal.getvalue()
    assert "50 %" in terminal.getvalue()


def test_the_page_says_what_is_missing_and_how_to_run_it() -> None:
    common = {"code": "c0de", "acked": 1, "lost": 0, "faults_total": 1}
    sim_row = common | {"arena": ledger.SIMULATOR, "profile": "drawn", "violations": 0}
    sim_row |= {"seconds": 60.0, "cpu_seconds": 1.0}
    live_row = common | {"arena": ledger.LIVE, "profile": "chaos-power", "verdict": "valid"}
    rows: list[ledger.Row] = [
        sim_row | {"seeds": 100_000},
        sim_row | {"seeds": 9, "profile": "calm"},  # no faults: not of the bar
        live_row | {"seconds": 3600.0, "power_cuts": 41},
        live_row
        | {"seconds": 9000.0, "power_cuts": 1, "verdict": "invalid"},  # hours of it prove nothing
        live_row | {"seconds": 1.0, "power_cuts": 9999, "code": "0ther"},
    ]
    page = render(rows, "c0de", "abc")
    assert "| simulated seeds | 100,000 | 100,000 | reached |" in page
    command = "`dledger chaos run --config conf/chaos-power.toml --seconds 600 --counts FILE`"
    assert f"| power cuts | 5,000 | 42 | {command} |" in page
    assert "| hours of one valid run | 2 | 1.00 | `dledger chaos run" in page
