"""Where a command writes is looked at before it starts: two runs never share a folder."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chaos.live.command import chaos
from chaos.mutants.command import mutants
from chaos.sim.command import sim
from chaos.tools import outputs
from chaos.tools.outputs import check_file, check_folder

SIMULATED = ["--seed", "4", "--nodes", "3", "--seconds", "3"]
#: Every command that is given a folder for a run.
INTO_A_FOLDER = (
    ["run", "--seconds", "10"],
    ["sim", *SIMULATED],
    ["shrink", "--seed", "4", "--seconds", "3"],
    ["controls"],
    ["baseline"],
)


def _run(*words: str | Path) -> Result:
    return CliRunner().invoke(chaos, [str(word) for word in words])


def _refused(done: Result, said: str) -> None:
    assert done.exit_code == 254, done.output
    assert said in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    root = tmp_path / "run"
    assert CliRunner().invoke(sim, [*SIMULATED, "--out", str(root)]).exit_code == 0
    return root


def _files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", INTO_A_FOLDER, ids=lambda words: words[0])
def test_a_folder_that_holds_something_is_left_as_it_is(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("of years")
    _refused(_run(*words, "--out", tmp_path), "is not empty; name a folder that is empty")
    assert _files(tmp_path) == {tmp_path / "mine": b"of years"}


def test_a_run_is_not_written_over_by_another_one(run_folder: Path) -> None:
    before = _files(run_folder)
    for words in (*INTO_A_FOLDER, ["replay", str(run_folder)]):
        _refused(_run(*words, "--out", run_folder), "holds a run already; name a folder")
    assert _files(run_folder) == before


def test_a_new_folder_and_an_empty_one_are_taken(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "deep/er/new"):
        assert _run("replay", run_folder, "--out", tmp_path / name).exit_code == 0
        assert (tmp_path / name / "report.html").exists()


@pytest.mark.parametrize("words", INTO_A_FOLDER, ids=lambda words: words[0])
@pytest.mark.parametrize("place", ["file", "file/child", "dangling", "x" * 300])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(
    words: list[str], place: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at all")
    _refused(_run(*words, "--out", tmp_path / place), "cannot be written")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_a_place_that_takes_no_file_is_refused() -> None:
    """As on a file system that is read-only: nothing in /proc can be made."""
    if not Path("/proc/self").is_dir():
        pytest.skip("not here: /proc")
    _refused(_run("run", "--out", "/proc/run"), "/proc/run cannot be written")
    _refused(_run("run", "--counts", "/proc/counts"), "/proc/counts cannot be written")


def test_without_a_place_for_runs_another_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("")
    _refused(_run("run", "--seconds", "10"), "cannot be made")


def test_a_ledger_that_is_no_file_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "cannot be written: Is a directory; name another file"
    _refused(_run("run", "--seconds", "10", "--counts", tmp_path), said)
    _refused(CliRunner().invoke(sim, ["--seeds", "0..9", "--counts", str(tmp_path)]), said)
    assert list(tmp_path.iterdir()) == [], "no folder of a run"


def test_a_page_that_is_no_file_is_refused_before_the_work(tmp_path: Path) -> None:
    said = "cannot be written: Is a directory"
    _refused(CliRunner().invoke(mutants, ["--write", str(tmp_path)]), said)
    _refused(_run("shrunk", "--write", tmp_path), said)
    _refused(_run("shrunk", "--resume", tmp_path), said)
    ledger = tmp_path / "counts.jsonl"
    ledger.write_text("")
    _refused(_run("counts", ledger, "--write", tmp_path), said)


def test_what_was_tried_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_folder(None)
    check_file(None)
    check_folder(tmp_path / "a" / "b")
    check_file(tmp_path / "a" / "ledger")
    assert list(tmp_path.iterdir()) == []
    ledger = tmp_path / "ledger"
    ledger.write_text("kept\n")
    check_file(ledger)
    assert ledger.read_text() == "kept\n"

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs.tempfile, "TemporaryFile", full)
    with pytest.raises(click.UsageError, match="No space left on device; name another folder"):
        check_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == [ledger]
