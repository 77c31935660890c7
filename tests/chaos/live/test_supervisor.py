"""What someone who watches a live run sees, and what is left of it; the run itself is played."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from chaos.counts.ledger import read_rows
from chaos.live import supervisor
from chaos.live.evidence_files import save_evidence
from chaos.live.judgement import judge_run
from chaos.live.nemesis import Happened
from chaos.live.run import Plan, Ran, make_plan
from chaos.live.settings import RunSettings
from chaos.live.supervisor import HARNESS, Wanted, supervise
from chaos.report.again import read_evidence
from tests.chaos.report.folders import replicas, rows, write_folder
from tests.waiting import limit

ROOT = Path(__file__).parents[3]
PLAN = make_plan(RunSettings(seconds=10.0, kinds=("kill", "pause")), 5)


@pytest.fixture(autouse=True)
def signals_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)


@pytest.fixture
def one_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after which one message is missing on n1."""
    logs = replicas()
    logs["n1"]["q0"].remove((3, "p0-6"))
    evidence, limits = read_evidence(write_folder(tmp_path / "played", logs=logs))
    ran = Ran(judge_run(evidence, limits), evidence, rows(), 10.0)

    async def run_plan(planned: Plan, root: Path, *, told: Callable[[Happened], None]) -> Ran:
        for one in evidence.happened:
            told(one)
        save_evidence(root, evidence, rows())
        return ran

    monkeypatch.setattr(supervisor, "run_plan", run_plan)


@pytest.mark.usefixtures("one_lost")
def test_an_invalid_run_says_how_to_see_it_again_and_smaller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ledger = tmp_path / "run", tmp_path / "counts.jsonl"
    code = supervise(PLAN, Wanted("the same line", root, counts=ledger, profile="nightly"))
    said = capsys.readouterr().out
    assert code == 1
    assert "again       the same line" in said
    assert "FAIL  no acknowledged message lost  1\n" in said
    assert "pass  nothing doubled\n" in said
    assert f"store {root}\n" in said
    assert f"smaller     dledger chaos shrink {root}" in said
    assert "kill" in said
    row = read_rows(ledger)[0]
    assert (row["profile"], row["lost"], row["verdict"]) == ("nightly", 1, "invalid")
    assert json.loads((root / "env.json").read_text())["schedule"]
    assert (root / "report.html").exists()


ENDLESS = """
import asyncio, signal, sys
from pathlib import Path
from chaos.live import supervisor
from tests.chaos.live.test_supervisor import PLAN

async def run_plan(planned, root, *, told):
    print("runs", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        print("put away", flush=True)

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for `command &`
supervisor.run_plan = run_plan
supervisor.supervise(PLAN, supervisor.Wanted("again", Path(sys.argv[1]), quiet=True))
"""


def test_a_run_in_the_background_that_is_asked_to_end_puts_its_things_away(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.terminate()
        said, _ = process.communicate(timeout=limit(20))
    finally:
        process.kill()
    assert said == "put away\n"
    assert process.returncode


@pytest.mark.usefixtures("one_lost")
def test_a_program_gets_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert supervise(PLAN, Wanted("again", tmp_path / "run", quiet=True)) == 1
    assert json.loads(capsys.readouterr().out)["lost"] == 1


def test_a_run_that_breaks_says_nothing_about_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run_plan(*_: object, **__: object) -> Ran:
        raise OSError("no space left")

    monkeypatch.setattr(supervisor, "run_plan", run_plan)
    ledger = tmp_path / "counts.jsonl"
    assert supervise(PLAN, Wanted("again", tmp_path / "run", counts=ledger)) == HARNESS
    assert "says nothing about the cluster: no space left" in capsys.readouterr().err
    assert not ledger.exists()


@pytest.mark.usefixtures("one_lost")
def test_a_ledger_that_cannot_be_written_any_more_takes_no_verdict_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(supervisor, "add_live_run", full)
    ledger = tmp_path / "counts.jsonl"
    assert supervise(PLAN, Wanted("again", tmp_path / "run", counts=ledger)) == 1
    assert f"not counted in {ledger}: no space left" in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(click.UsageError, match="is not empty"):
        supervise(PLAN, Wanted("again", tmp_path))
