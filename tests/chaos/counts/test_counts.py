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
from chaos.exit_codes import USAGE
from chaos.live.command import chaos
from chaos.mutants.within import _VARIABLE
from chaos.progress import progress_bar
from chaos.sim.command import sim
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan, run_plan

PLAN = Plan(0, 6, 3, 1.5)


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
    for plan in (PLAN, replace(PLAN, profile=Profile(membership=True)), replace(PLAN, seconds=1.0)):
        run_plan(plan, ledger=path)
    assert len(ledger.rows_of_this_code(path)) == 3


def test_chunks_of_overlapping_ranges_are_the_same() -> None:
    found = [(c.first, c.behind) for c in Plan(150, 420, 3, 3.0).chunks()]
    assert found == [(150, 200), (200, 300), (300, 400), (400, 420)]


def test_other_code_starts_the_count_again(tmp_path: Path, other_code: None) -> None:
    path = tmp_path / "counts.jsonl"
    run_plan(PLAN, ledger=path)
    path.write_text(path.read_text().replace("0ther", code_key()))
    assert ledger.rows_of_this_code(path) == []
    assert run_plan(PLAN, ledger=path).seeds == 6
    assert [row["code"] for row in ledger.read_rows(path)] == [code_key(), "0ther"]


def _verdict(folder: str, cuts: int, seconds: float, word: str = "valid") -> dict[str, object]:
    sums = {"acked": 1000, "lost": 0, "doubled": 0, "reordered": 0, "power_cuts": cuts, "seed": 1}
    faults = {"took_effect": 7, "kinds": {"kill": 3, "power-loss": 4}}
    sums |= {"lost_pages": 2}
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
    assert "| chaos-power | 2 | 1 | 2.00 | 1.50 | 14 | 2 | 1,500 | 4 | 2,000 | 0 |" in done.output
    assert "Faults that cut power, of one node or of all: 8 of power-loss." in done.output
    later = render(ledger.read_rows(path), "0ther", "")
    assert "| drawn" not in later
    assert "Before, of 1 other states of the code: 9 seeds, 1,500 cuts." in later


def test_nothing_is_counted_with_a_rule_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_VARIABLE, "majority-off-by-one")
    words = ["--seeds", "0..2", "--seconds", "3", "--counts", str(tmp_path / "counts.jsonl")]
    assert CliRunner().invoke(sim, words).exit_code == 254
    assert not (tmp_path / "counts.jsonl").exists()


def test_the_command_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    words = ["--seeds", "0..2", "--nodes", "3", "--seconds", "3", "--counts", str(path)]
    assert CliRunner().invoke(sim, words).exit_code == 0
    row = json.loads(path.read_text())
    assert (row["arena"], row["profile"], row["seeds"]) == ("simulator", "drawn", 2)


def test_programs_are_told_how_far_each_bar_is(tmp_path: Path) -> None:
    file = tmp_path / "counts.jsonl"
    file.write_text("")
    done = CliRunner().invoke(chaos, ["counts", str(file), "-o", "json"])
    said = json.loads(done.stdout)
    assert said["code"] == code_key()
    assert [bar["wanted"] for bar in said["bars"]] == [100_000, 1_000, 5_000, 2.0]
    assert all((bar["counted"], bar["reached"]) == (0, False) for bar in said["bars"])
    assert all(bar["command"].startswith("dledger ") for bar in said["bars"])


def test_the_counts_are_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    path.write_text('{"arena": "live"}\n')
    done = CliRunner().invoke(chaos, ["counts", str(path), "--write", str(path)])
    assert (done.exit_code, path.read_text()) == (USAGE, '{"arena": "live"}\n')


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


def test_no_seed_and_no_run_counts_twice(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    for behind in (2, 3, 4, 4):
        run_plan(replace(PLAN, behind=behind), ledger=path)
    path.write_text(path.read_text() * 2)
    for _ in range(2):
        ledger.add_live_run(path, "chaos-power", _verdict("runs/one", 1200, 1800.0))
    page = render(ledger.read_rows(path), code_key(), "")
    assert "| drawn | 4 |" in page
    assert "| chaos-power | 1 | 1 |" in page


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a ledger holds after one run."""
    path = tmp_path_factory.mktemp("counted") / "counts.jsonl"
    run_plan(PLAN, ledger=path)
    return path.read_text()


@pytest.mark.parametrize(
    "line",
    ["\udcff\udcfe", "[1]", "{}", "[" * 100_000, '{"arena": "moon", "code": "a"}', '{"arena": 1}'],
)
@pytest.mark.parametrize(
    "field", ["arena", "code", "profile", "chunk", "seconds", "acked", "seeds"]
)
def test_a_damaged_line_is_none(tmp_path: Path, counted: str, line: str, field: str) -> None:
    path = tmp_path / "counts.jsonl"
    path.write_text(counted)
    row = json.loads(path.read_text())
    bad = [
        json.dumps({**row, field: None}),
        json.dumps({k: v for k, v in row.items() if k != field}),
    ]
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join([line, *bad]) + "\n")
    assert len(ledger.read_rows(path)) == 1
    assert CliRunner().invoke(chaos, ["counts", str(path)]).exit_code == 0


def test_the_page_says_what_is_missing_and_how_to_run_it() -> None:
    common = {"code": "c0de", "acked": 1, "lost": 0, "faults_total": 1}
    sim_row = common | {"arena": ledger.SIMULATOR, "profile": "drawn", "violations": 0}
    sim_row |= {"seconds": 60.0, "cpu_seconds": 1.0}
    live_row = common | {"arena": ledger.LIVE, "profile": "chaos-power", "verdict": "valid"}
    live_row |= {"run": "a"}
    rows: list[ledger.Row] = [
        sim_row | {"chunk": "0..99900 a", "seeds": 99_900, "seconds": 60.0 * 99_900},
        sim_row | {"chunk": "99900..100000 b", "seeds": 100, "seconds": 5999.0},  # too short each
        sim_row | {"chunk": "99900..100000 a", "seeds": 100, "seconds": 6000.0, "violations": 1},
        sim_row | {"chunk": "99900..100000 nodes 3 seconds 57 ", "seeds": 100, "seconds": 6200.0},
        sim_row
        | {
            "chunk": "0..9",
            "seeds": 9,
            "profile": "calm",
            "seconds": 540.0,
        },  # has a bar of its own
        live_row | {"seconds": 3600.0, "power_cuts": 41},
        live_row  # a run that is not valid proves nothing
        | {"seconds": 9000.0, "power_cuts": 1, "verdict": "invalid", "run": "b"},
        live_row | {"seconds": 9000.0, "power_cuts": 7, "lost": 1, "run": "c"},
        live_row | {"seconds": 1.0, "power_cuts": 9999, "code": "0ther"},
    ]
    page = render(rows, "c0de", "abc")
    seeds, calm = "`dledger sim --seeds 0..100000", "`dledger sim --seeds 0..1000 --calm"
    row = "| simulated seeds without a violation | 100,000"
    assert f"{row} | 99,900 | {seeds} --counts FILE` |" in page
    assert f"| without a fault, no alarm | 1,000 | 9 | {calm} --counts FILE` |" in page
    more = sim_row | {"chunk": "100000..100100 a", "seeds": 100, "seconds": 6000.0}
    assert f"{row} | 100,000 | reached |" in render([*rows, more], "c0de", "abc")
    command = "`dledger chaos run --config conf/chaos-power.toml --seconds 600 --counts FILE`"
    assert f"| power cuts | 5,000 | 41 | {command} |" in page
    assert "| hours of one valid run | 2 | 1.00 | `dledger chaos run" in page
