"""`dledger chaos porcupine` about a run's folder; without the program."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.checkers.verdict import Word
from chaos.history import Kind, Operation, Outcome
from chaos.judges import command
from chaos.judges.porcupine.judge import Answer, PorcupineError, Question
from chaos.live.evidence_files import save_ended


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    one = Operation("p", Kind.APPEND, "a", 0, 1, Outcome.OK, 0, "q0")
    (tmp_path / "history.jsonl").write_text(one.to_json() + "\n")
    (tmp_path / "replicas.json").write_text(json.dumps({"n0": {"q0": [[0, "a"]]}}))
    (tmp_path / "verdict.json").write_text(json.dumps({"log_begins": 0}))
    return tmp_path


def _judged(monkeypatch: pytest.MonkeyPatch, words: dict[str, Word]) -> list[Question]:
    asked: list[Question] = []

    def ask(
        program: Path, questions: Iterable[Question], *, model: str, seconds_max: float
    ) -> list[Answer]:
        asked.extend(questions)
        return [Answer("run", words[model], 2, "" if words[model] is Word.VALID else "of the test")]

    monkeypatch.setattr(command, "build", lambda folder: folder / "judge")
    monkeypatch.setattr(command, "ask", ask)
    return asked


@pytest.mark.parametrize(
    ("queue", "register", "code"),
    [
        (Word.VALID, Word.VALID, 0),
        (Word.VALID, Word.INVALID, 1),
        (Word.INVALID, Word.UNKNOWN, 1),
        (Word.VALID, Word.UNKNOWN, 2),
    ],
)
def test_the_worst_word_is_the_exit_code(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, queue: Word, register: Word, code: int
) -> None:
    asked = _judged(monkeypatch, {"queue": queue, "register": register})
    result = CliRunner().invoke(command.porcupine, [str(run_folder), "-o", "json"])
    assert result.exit_code == code
    assert json.loads(result.output)["queue"]["verdict"] == queue.name.lower()
    assert asked[0].replicas == {"n0": {"q0": [(0, "a")]}}
    assert [op.value for op in asked[0].history] == ["a"]


def test_a_run_that_nobody_judged_yet(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its list of evidence says where its logs begin: what lay below was deleted, not lost."""
    asked = _judged(monkeypatch, {"queue": Word.VALID, "register": Word.VALID})
    (run_folder / "verdict.json").unlink()
    deleted = Operation("p", Kind.APPEND, "z", 0, 1, Outcome.OK, 0, "q0", position=40)
    kept = Operation("p", Kind.APPEND, "a", 2, 3, Outcome.OK, 1, "q0", position=200)
    (run_folder / "history.jsonl").write_text(f"{deleted.to_json()}\n{kept.to_json()}\n")
    (run_folder / "replicas.json").write_text(json.dumps({"n0": {"q0": [[1, "a"]]}}))
    save_ended(run_folder, {"log_begins": 100, "converged_seconds": 0.5, "anomalies": []})
    result = CliRunner().invoke(command.porcupine, [str(run_folder)])
    assert result.exit_code == 0
    assert asked[0].replicas == {"n0": {"q0": [(0, "z"), (1, "a")]}}


def test_without_go_it_is_unknown_and_says_so(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(folder: Path) -> Path:
        raise PorcupineError("porcupine cannot be asked: needs go on the path")

    monkeypatch.setattr(command, "build", build)
    result = CliRunner().invoke(command.porcupine, [str(run_folder)])
    assert result.exit_code == 2
    assert "skipped: porcupine cannot be asked: needs go" in result.output


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.porcupine, [str(tmp_path)])
    assert result.exit_code == 2
    assert "is no folder of a run" in result.output
