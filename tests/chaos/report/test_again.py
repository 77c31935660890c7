"""A folder judged a second time: every check anew, and exit codes that mean one thing each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.checkers.verdict import Word
from chaos.history import Kind, Operation, Outcome
from chaos.live.command import chaos
from chaos.live.judgement import judge_run
from chaos.replay import check as check_command
from chaos.report.again import read_evidence
from chaos.tools.exit_codes import HARNESS, USAGE
from tests.chaos.report.folders import (
    COUNT,
    all_seen,
    faults,
    replicas,
    rows,
    traces,
    write_folder,
    write_lines,
    write_traces,
)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def check(root: Path) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(chaos, ["check", str(root), "-o", "json"])
    return done.exit_code, json.loads(done.stdout)


def names(said: dict[str, Any]) -> set[str]:
    return {one["name"] for one in said["anomalies"]}


def test_a_good_run_is_valid_again(tmp_path: Path) -> None:
    code, said = check(all_seen(write_folder(tmp_path / "run")))
    assert (code, said["verdict"], said["acked"]) == (0, "valid", 36)
    assert said["faults"]["took_effect"] == 2
    assert said["gap_max_ms"] == pytest.approx(1250.0)


def test_a_fault_without_effect_leaves_the_run_unknown(tmp_path: Path) -> None:
    code, said = check(write_folder(tmp_path / "run"))
    assert (code, said["verdict"]) == (2, "unknown")
    assert said["unknown_because"] == ["fault 1, pause, had no effect that was seen (not stopped)"]


def test_a_message_that_is_gone_is_found(tmp_path: Path) -> None:
    logs = replicas()
    logs["n1"]["q0"].remove((3, "p0-6"))
    code, said = check(all_seen(write_folder(tmp_path / "run", logs=logs)))
    assert (code, said["lost"]) == (1, 1)
    assert names(said) == {"lost-middle", "diverged", "offset-hole"}


def test_silence_is_judged_by_the_runs_own_limit(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    settings = json.loads((root / "env.json").read_text())["settings"]
    edit(root / "env.json", settings=settings | {"gap_seconds_max": 1.0})
    assert names(check(root)[1]) == {"unavailable"}


def test_two_leaders_in_a_term_are_found(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    second = {"time": 9.6, "node": "n2", "role": "leader", "term": 2, "boot": 1}
    write_lines(root / "nodes.jsonl", [*rows(), second | {"committed": 38, "last": 38}])
    code, said = check(root)
    assert code == 1
    assert "election-safety" in names(said)


def test_a_second_leader_that_only_its_own_trace_shows_is_found(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    found = traces()
    found["n2"][2:] = [
        found["n2"][3] | {"at": 5.701, "role": "leader", "vote": "n2", "leader": "n2"},
        found["n2"][3] | {"at": 5.72, "vote": "n2"},
    ]
    write_traces(root, found)
    code, said = check(root)
    assert (code, names(said)) == (1, {"election-safety"})


def test_a_vote_that_a_trace_shows_to_change_is_found(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    found = traces()
    found["n2"][3]["vote"] = "n0"
    write_traces(root, found)
    assert names(check(root)[1]) == {"vote-changed"}


def died(root: Path) -> Path:
    """What a run leaves that was killed after its first fault."""
    for name in ("verdict.json", "replicas.json", "copies.json"):
        (root / name).unlink()
    write_lines(root / "faults.jsonl", faults()[:1])
    with (root / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"process":"p0","ki')
    return root


def test_a_run_that_died_is_unknown_up_to_there(tmp_path: Path) -> None:
    code, said = check(died(write_folder(tmp_path / "run")))
    assert (code, said["verdict"], said["acked"]) == (2, "unknown", 36)
    assert said["unknown_because"] == ["the run did not end: no replica was read"]


def test_a_run_that_died_has_lost_no_message_that_nobody_looked_for(tmp_path: Path) -> None:
    """Its last acknowledgements were shown to nobody, since nobody lived to look."""
    root = died(write_folder(tmp_path / "run"))
    lines = (root / "history.jsonl").read_text("utf-8").splitlines()[:-1]
    half = Operation("t", Kind.HALF, "h0", 9.0, 9.1, Outcome.OK, 5, "d0")
    commit = Operation("t", Kind.HALF_COMMIT, "h0", 9.2, 9.3, Outcome.OK, -1, "d0")
    delay = Operation("d", Kind.DELAY, "d0", 9.0, 9.1, Outcome.OK, 6, "d0", due=9.2)
    later = [one.to_json() for one in (half, commit, delay)]
    (root / "history.jsonl").write_text("\n".join([*lines, *later]) + "\n", "utf-8")
    code, said = check(root)
    assert (code, said["anomalies"]) == (2, [])
    assert (
        "1 transactional messages had not come, and nobody watched until they had to"
        in (said["unknown_because"])
    )


def test_what_a_run_that_died_shows_wrong_is_wrong(tmp_path: Path) -> None:
    root = died(write_folder(tmp_path / "run"))
    settings = json.loads((root / "env.json").read_text())["settings"]
    edit(root / "env.json", settings=settings | {"gap_seconds_max": 1.0})
    assert names(check(root)[1]) == {"unavailable"}


def test_of_a_run_that_died_nothing_is_judged_behind_a_fault_that_nobody_saw_end(
    tmp_path: Path,
) -> None:
    root = died(write_folder(tmp_path / "run"))
    settings = json.loads((root / "env.json").read_text())["settings"]
    edit(root / "env.json", settings=settings | {"gap_seconds_max": 1.0})
    write_lines(root / "faults.jsonl", [])  # so the silence may be the kill's, from 4.9 s on
    assert names(check(root)[1]) == set()


@pytest.mark.parametrize("name", ["damaged-answer", "not-up-again"])
def test_what_only_the_harness_saw_is_still_known(tmp_path: Path, name: str) -> None:
    root = all_seen(write_folder(tmp_path / "run", [{"name": name, "detail": "r0 was told mush"}]))
    assert names(check(root)[1]) == {name}


def test_replicas_that_never_met_are_not_forgiven(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    edit(root / "verdict.json", converged_seconds=None)
    assert judge_run(*read_evidence(root)).word is Word.INVALID


def test_bytes_that_were_not_compared_prove_nothing(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    (root / "copies.json").unlink()
    code, said = check(root)
    assert (code, said["unknown_because"]) == (2, ["the bytes of the replicas were not compared"])


def test_a_replica_with_other_bytes_is_found(tmp_path: Path) -> None:
    root = all_seen(write_folder(tmp_path / "run"))
    nodes = json.loads((root / "copies.json").read_text())["nodes"]
    nodes["n1"]["chain"] = "00" * 16 * COUNT
    nodes["n2"]["regions"]["log"]["chunks"] = "00" * 16
    edit(root / "copies.json", nodes=nodes)
    code, said = check(root)
    assert code == 1
    other = {"log-mismatch", "bytes-differ", "not-converged", "leader-completeness"}
    assert names(said) == other  # n1 led, too


def test_notes_of_drivers_are_kept(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    found = [row | {"seen": "cut", "cuts": 3, "lost_pages": 7} for row in faults()]
    write_lines(root / "faults.jsonl", found)
    said = judge_run(*read_evidence(root)).summary
    assert (said["power_cuts"], said["lost_pages"]) == (6, 14)


@pytest.mark.parametrize(
    "arguments",
    [["--bogus"], ["nix"], ["check"], ["check", "no-such-folder"], ["run", "--faults", "rain"], []],
)
def test_wrong_usage_is_never_taken_for_a_verdict(arguments: list[str]) -> None:
    assert CliRunner().invoke(chaos, arguments).exit_code == USAGE


def test_a_folder_without_a_run_is_wrong_usage(tmp_path: Path) -> None:
    assert CliRunner().invoke(chaos, ["check", str(tmp_path)]).exit_code == USAGE


@pytest.mark.parametrize("error", [RuntimeError("judge broke"), KeyboardInterrupt()])
def test_a_judge_that_fails_or_is_interrupted_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(check_command, "judge_run", fail)
    done = CliRunner().invoke(chaos, ["check", str(write_folder(tmp_path / "run"))])
    assert done.exit_code == HARNESS
    assert "says nothing about the cluster" in done.output
