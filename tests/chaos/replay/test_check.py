"""Evidence that is not as the run left it proves nothing, whatever was done to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.checkers.verdict import Word
from chaos.live import run as live_run
from chaos.live.command import chaos
from chaos.live.evidence_files import ENDED, save_evidence
from chaos.live.folder import save_plan
from chaos.live.run import make_plan
from chaos.live.settings import RunSettings
from chaos.replay import check as check_command
from chaos.replay import folder
from chaos.report.again import read_evidence
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.tools.exit_codes import HARNESS, USAGE
from tests.chaos.report.folders import listed, rows

EVIDENCE = (
    *("history.jsonl", "faults.jsonl", "nodes.jsonl", "replicas.json", "copies.json", "env.json"),
    *("zero.json", "cluster/n1/trace.jsonl"),
)


def _check(root: Path) -> Result:
    return CliRunner().invoke(chaos, ["check", str(root), "-o", "json"])


def _said(done: Result) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _cut(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))


def _empty(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize("spoil", [Path.unlink, _empty, _cut])
@pytest.mark.parametrize("name", EVIDENCE)
def test_what_is_missing_leaves_the_word_unknown(
    live: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    assert _check(live).exit_code == 0
    spoil(live / name)
    done = _check(live)
    assert done.exit_code == 2
    assert any(reason.startswith(name) for reason in _said(done)["unknown_because"])


@pytest.mark.parametrize("name", ["history.jsonl", "replicas.json", "cluster/n0/trace.jsonl"])
def test_so_it_is_of_a_simulated_run(simulated: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / "copied"
    shutil.copytree(simulated, root)
    assert _check(root).exit_code == 0
    _cut(root / name)
    done = _check(root)
    assert done.exit_code == 2
    assert any(reason.startswith(name) for reason in _said(done)["unknown_because"])


def test_a_trace_that_nobody_wrote_is_seen(live: Path) -> None:
    (live / "cluster" / "n7").mkdir()
    (live / "cluster" / "n7" / "trace.jsonl").write_text("")
    done = _check(live)
    assert (done.exit_code, _said(done)["unknown_because"]) == (
        2,
        ["cluster/n7/trace.jsonl is none of the run's files"],
    )


def test_a_list_that_is_gone_is_missed(simulated: Path, tmp_path: Path) -> None:
    root = tmp_path / "copied"
    shutil.copytree(simulated, root)
    (root / ENDED).unlink()
    assert _check(root).exit_code == 2


def test_an_older_folder_is_believed_and_says_so(live: Path) -> None:
    (live / ENDED).unlink()
    done = _check(live)
    assert done.exit_code == 0
    assert "earlier release" in _said(done)["not_checked"]["evidence"]


def test_what_a_simulated_run_does_not_show_is_not_checked(simulated: Path) -> None:
    done = _check(simulated)
    unchecked = _said(done)["not_checked"]
    assert {"never-read", "offset-back", "delayed-lost", "commit-stuck"} <= unchecked.keys()
    assert {"unavailable", "no-progress", "damaged-answer"} <= unchecked.keys()
    assert not {"lost-middle", "G0-realtime", "election-safety"} & unchecked.keys()


def test_a_line_that_cannot_be_read_is_named(live: Path) -> None:
    (live / ENDED).unlink()
    path = live / "history.jsonl"
    lines = path.read_text().splitlines()
    number = next(at for at, line in enumerate(lines) if '"value":"p0-6"' in line)
    lines[number] = lines[number].replace('"value":"p0-6"', '"value":[1]')
    path.write_text("\n".join(lines) + "\n")
    done = _check(live)
    assert done.exit_code == USAGE
    assert f"history.jsonl, line {number + 1} cannot be read" in done.output


def test_a_wrong_field_in_listed_evidence_is_no_fault_of_the_judge(live: Path) -> None:
    path = live / "history.jsonl"
    path.write_text(path.read_text().replace('"value":"p0-6"', '"value":[1]'))
    listed(live)
    done = _check(live)
    assert done.exit_code == USAGE
    assert "cannot be read" in done.output


def _without_evidence(live: Path, root: Path) -> Path:
    """What is in a live run's folder while it runs."""
    root.mkdir()
    save_plan(root, make_plan(RunSettings(kinds=("kill", "pause")), 5))
    shutil.copy(live / "env.json", root)
    shutil.copy(live / "zero.json", root)
    shutil.copytree(live / "cluster", root / "cluster")
    return root


def _fail(*_: object) -> None:
    raise RuntimeError("the judge broke")


def test_a_live_run_whose_judge_fails_can_be_judged(
    live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence is on the disk, and listed, before anybody judges."""
    evidence, limits = read_evidence(live)
    root = _without_evidence(live, tmp_path / "again")
    monkeypatch.setattr(live_run, "judge_run", _fail)
    with pytest.raises(RuntimeError, match="the judge broke"):
        live_run._judge(root, replace(evidence, told=()), rows(), limits)
    assert not (root / "verdict.json").exists()
    done = _check(root)
    assert (done.exit_code, _said(done)["acked"]) == (0, 36)
    assert CliRunner().invoke(chaos, ["report", str(root)]).exit_code == 0
    (root / "copies.json").unlink()
    assert _check(root).exit_code == 2


def test_what_nodes_told_is_judged_too(live: Path, tmp_path: Path) -> None:
    evidence, limits = read_evidence(live)
    root = _without_evidence(live, tmp_path / "again")
    judged, judgement = live_run._judge(root, replace(evidence, told=()), rows(), limits)
    assert list(judged.told) == list(evidence.told)
    assert judged.told
    assert judgement.word is Word.VALID


def test_a_simulated_run_whose_judge_fails_can_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(folder, "judge_simulated", _fail)
        with pytest.raises(RuntimeError, match="the judge broke"):
            folder.record(tmp_path, Plan(6, 7, 3, 4.0, Profile()), "")
    done = _check(tmp_path)
    assert done.exit_code == 0
    assert _said(done)["acked"] > 0


def test_a_judge_that_fails_on_good_evidence_is_no_damage(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("the judge's own")

    monkeypatch.setattr(check_command, "judge_run", broken)
    assert _check(live).exit_code == HARNESS


def test_what_a_run_saves_is_what_is_read_again(live: Path, tmp_path: Path) -> None:
    evidence, _ = read_evidence(live)
    root = _without_evidence(live, tmp_path / "again")
    save_evidence(root, evidence, rows())
    assert replace(read_evidence(root)[0], unplaced=()) == evidence
    assert _check(root).exit_code == 0
