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
from chaos.counts.code_key import (
    BROKER,
    LOG,
    REPLICA,
    ROOTS,
    code_key,
    code_keys,
    imported_by,
    tree_key,
)
from chaos.counts.page import bars, render
from chaos.live.command import chaos
from chaos.mutants.within import _VARIABLE
from chaos.sim.command import sim
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan, run_plan
from chaos.tools.evidence import VARIABLE, evidence_folder
from chaos.tools.exit_codes import USAGE
from chaos.tools.progress import progress_bar

PLAN = Plan(0, 6, 3, 1.5)
OTHER = dict.fromkeys(ROOTS, "0ther")


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "code_keys", lambda: OTHER)


def _file(folder: Path, text: str, name: str = "a") -> dict[str, Path]:
    (folder / f"{name}.py").write_text(text)
    return {name: folder / f"{name}.py"}


def test_only_what_python_sees_changes_the_key(tmp_path: Path) -> None:
    before = tree_key(_file(tmp_path, 'def f():\n    """Words."""\n    return 1\n'))
    same = 'def f():  # why\n\n    """Other words."""\n    return (1)\n'
    assert tree_key(_file(tmp_path, same)) == before
    assert tree_key(_file(tmp_path, "def f():\n    return 2\n")) != before
    assert tree_key(_file(tmp_path, "def f():\n    return 1\n")) == before
    assert tree_key(_file(tmp_path, "def f():\n    return 1\n", "b")) != before


def test_each_subsystem_has_the_modules_that_it_imports() -> None:
    found = {name: set(imported_by(roots)) for name, roots in ROOTS.items()}
    assert {"dledger.core.quorum", "dledger.durable.flush_mark"} <= found[REPLICA]
    assert {"dledger.core.quorum", "dledger.runtime.transport"} <= found[LOG]
    assert {"dledger.core.quorum", "cluster.core.topics"} <= found[BROKER]
    assert not [name for name in found[LOG] if name.startswith("cluster.")]
    assert not [name for name in found[REPLICA] if name.startswith("cluster.broker")]
    assert "dledger.runtime.transport" not in found[REPLICA]
    keys = code_keys()
    assert len(set(keys.values())) == len(ROOTS)
    assert {len(key) for key in keys.values()} == {12}


def test_a_root_that_is_no_module_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no module dledger\.nowhere"):
        imported_by(["dledger.nowhere"])


def test_a_change_of_the_broker_leaves_seeds_and_power_cuts_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counts.jsonl"
    plan = replace(PLAN, behind=2)
    run_plan(plan, ledger=path)
    ledger.add_live_run(path, "chaos-power", _verdict("runs/one", 1200, 7200.0))
    counted = [bar.counted for bar in bars(ledger.read_rows(path), code_keys())]
    assert counted[2:] == [1200, 2.0]
    changed = {**code_keys(), BROKER: "0ther"}
    counted = [bar.counted for bar in bars(ledger.read_rows(path), changed)]
    assert counted[2:] == [1200, 0]
    monkeypatch.setattr(ledger, "code_keys", lambda: changed)
    assert len(ledger.seeds_of_this_code(path)) == 1
    assert f"| drawn | {plan.behind} |" in render(ledger.read_rows(path), changed, "")


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
    assert len(ledger.seeds_of_this_code(path)) == 3


def test_chunks_of_overlapping_ranges_are_the_same() -> None:
    found = [(c.first, c.behind) for c in Plan(150, 420, 3, 3.0).chunks()]
    assert found == [(150, 200), (200, 300), (300, 400), (400, 420)]


def test_other_code_starts_the_count_again(tmp_path: Path, other_code: None) -> None:
    path = tmp_path / "counts.jsonl"
    run_plan(PLAN, ledger=path)
    path.write_text(path.read_text().replace("0ther", code_key(REPLICA)))
    assert ledger.seeds_of_this_code(path) == []
    assert run_plan(PLAN, ledger=path).seeds == 6
    found = [row["code"][REPLICA] for row in ledger.read_rows(path)]
    assert found == [code_key(REPLICA), "0ther"]


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
    assert code_key(REPLICA) in done.output
    assert "| drawn | 9 |" in done.output
    assert "| chaos-power | 2 | 1 | 2.00 | 1.50 | 14 | 2 | 1,500 | 4 | 2,000 | 0 |" in done.output
    assert "Faults that cut power, of one node or of all: 8 of power-loss." in done.output
    later = render(ledger.read_rows(path), OTHER, "")
    assert "| drawn" not in later
    assert "Of earlier code, and no longer counted: 9 seeds, 1,500 cuts." in later


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


def test_the_command_counts_in_the_evidence_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "evidence"))
    words = ["--seeds", "0..1", "--counts", "--seconds", "3"]
    assert CliRunner().invoke(chaos, ["counts"]).exit_code == USAGE
    assert CliRunner().invoke(sim, words).exit_code == 0
    done = CliRunner().invoke(chaos, ["counts", "--write"])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "evidence").iterdir()} == {
        "counts.jsonl",
        "counts.md",
    }
    assert (tmp_path / "evidence" / "counts.md").read_text() == done.output


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({VARIABLE: "/e", "XDG_STATE_HOME": "/s"}, "/e"),
        ({"XDG_STATE_HOME": "/s"}, "/s/dledger/evidence"),
        ({"HOME": "/h"}, "/h/.local/state/dledger/evidence"),
    ],
)
def test_the_evidence_folder_is_the_named_one_or_in_the_state_folder(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert evidence_folder() == Path(folder)


def test_programs_are_told_how_far_each_bar_is(tmp_path: Path) -> None:
    file = tmp_path / "counts.jsonl"
    file.write_text("")
    done = CliRunner().invoke(chaos, ["counts", str(file), "-o", "json"])
    said = json.loads(done.stdout)
    assert said["code"] == code_keys()
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
    page = render(ledger.read_rows(path), code_keys(), "")
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
    codes = dict.fromkeys(ROOTS, "c0de")
    common = {"code": codes, "acked": 1, "lost": 0, "faults_total": 1}
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
        live_row | {"seconds": 1.0, "power_cuts": 9999, "code": OTHER},
    ]
    page = render(rows, codes, "abc")
    seeds, calm = "`dledger sim --seeds 0..100000", "`dledger sim --seeds 0..1000 --calm"
    row = "| simulated seeds without a violation | replica | 100,000"
    assert f"{row} | 99,900 | {seeds} --counts` |" in page
    assert f"| without a fault, no alarm | replica | 1,000 | 9 | {calm} --counts` |" in page
    more = sim_row | {"chunk": "100000..100100 a", "seeds": 100, "seconds": 6000.0}
    assert f"{row} | 100,000 | reached |" in render([*rows, more], codes, "abc")
    command = "`dledger chaos run --config conf/chaos-power.toml --seconds 600 --counts`"
    assert f"| power cuts | log | 5,000 | 41 | {command} |" in page
    assert "| hours of one valid run | broker | 2 | 1.00 | `dledger chaos run" in page
