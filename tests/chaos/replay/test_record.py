"""A simulated run's folder holds what a live one's does, and is judged again from its files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.live.command import chaos
from chaos.replay import folder, log_ends, record
from chaos.replay.again import judge_simulated
from chaos.sim.command import sim
from chaos.sim.runner import Plan
from dledger.core.types import Index
from tests.chaos.report.folders import listed

PLAN = Plan(6, 7, 3, 12.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run; tests that change it take a copy."""
    root = tmp_path_factory.mktemp("runs") / "run"
    words = ["--seed", "6", "--nodes", "3", "--seconds", "12", "--out", str(root)]
    done = CliRunner().invoke(sim, words)
    assert done.exit_code == 0, done.output
    return root


@pytest.fixture
def copied(recorded: Path, tmp_path: Path) -> Path:
    for path in recorded.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(recorded)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path


def _check(root: Path) -> Result:
    return CliRunner().invoke(chaos, ["check", str(root), "-o", "json"])


def _names(done: Result) -> set[str]:
    return {one["name"] for one in json.loads(done.stdout)["anomalies"]}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_changes_nothing_about_the_run(recorded: Path) -> None:
    said = json.loads((recorded / "verdict.json").read_text())
    assert said["trace_hash"] == PLAN.run(6).trace_hash
    assert said["verdict"] == "valid"
    assert len(_lines(recorded / "history.jsonl")) > said["acked"] > 0


def test_check_report_and_replay_work_on_it(recorded: Path) -> None:
    checked = _check(recorded)
    assert (checked.exit_code, json.loads(checked.stdout)["verdict"]) == (0, "valid")
    assert CliRunner().invoke(chaos, ["report", str(recorded)]).exit_code == 0
    assert "seed 6" in (recorded / "report.html").read_text()
    again = CliRunner().invoke(chaos, ["replay", str(recorded)])
    assert again.exit_code == 0
    assert "the same trace" in again.output


def test_a_message_that_is_gone_from_one_log_is_found(copied: Path) -> None:
    logs = json.loads((copied / "replicas.json").read_text())
    del logs["n1"]["log"][3]
    (copied / "replicas.json").write_text(json.dumps(logs))
    assert _check(copied).exit_code == 2, "evidence that was changed"
    done = _check(listed(copied))
    assert done.exit_code == 1
    assert "lost-middle" in _names(done)


def test_a_second_leader_in_a_trace_is_found(copied: Path) -> None:
    rows = _lines(copied / "cluster" / "n0" / "trace.jsonl")
    other = _lines(copied / "cluster" / "n1" / "trace.jsonl")
    leads = next(row for row in [*rows, *other] if row["role"] == "leader")
    for name in ("n0", "n1"):
        with (copied / "cluster" / name / "trace.jsonl").open("a") as file:
            file.write(json.dumps(leads | {"at": 99.0, "term": 999}) + "\n")
    assert "election-safety" in _names(_check(listed(copied)))


def test_what_only_the_simulator_saw_is_still_known(copied: Path) -> None:
    said = json.loads((copied / "ended.json").read_text())
    said |= {"violation": "not-durable", "detail": "n1: entry 3"}
    (copied / "ended.json").write_text(json.dumps(said))
    listed(copied)
    done = _check(copied)
    assert (done.exit_code, _names(done)) == (1, {"not-durable"})


def test_a_run_that_broke_has_no_logs_to_agree_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: record.RecordedWorld) -> None:
        self.watch.violation("liveness", "nothing is committed any more")

    monkeypatch.setattr(record.RecordedWorld, "_liveness", broken)
    result = folder.record(tmp_path, replace(PLAN, seconds=6.0), "")
    assert result.violation == "liveness"
    found = judge_simulated(tmp_path)
    assert [one.name for one in found.verdict.anomalies] == ["liveness"]
    assert json.loads((tmp_path / "replicas.json").read_text()) == {}
    (text,) = (tmp_path / "anomalies").iterdir()
    assert "Ends of the nodes' logs when it was seen" in text.read_text()
    assert "Ends of the nodes' logs when it was seen" in (tmp_path / "report.html").read_text()


def test_ends_of_logs_are_those_around_each_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row in which nodes differ is marked, and what is not on disk is told."""

    def broken(self: record.RecordedWorld) -> None:
        shorter = self.watch._seen[1]
        del shorter.entries[20:]
        shorter.entries[19] = shorter.entries[19]._replace(term=99)
        shorter.flushed = Index(18)
        self.watch.violation("liveness", "nothing is committed any more")

    monkeypatch.setattr(record.RecordedWorld, "_liveness", broken)
    folder.record(tmp_path, replace(PLAN, seconds=6.0), "")
    rows = _lines(tmp_path / "logs.jsonl")
    lasts = {node: max(r["entry"] for r in rows if r["node"] == node) for node in ("n0", "n1")}
    assert lasts["n1"] == 19
    assert lasts["n0"] > 30
    shown = {row["entry"] for row in rows if row["node"] == "n0"}
    assert {*range(15, 25), *range(lasts["n0"] - 4, lasts["n0"] + 1)} <= shown
    assert len(shown) <= 6 * log_ends.AROUND
    (text,) = (tmp_path / "anomalies").iterdir()
    (line,) = [line for line in text.read_text().splitlines() if "term 99" in line]
    assert re.search(r"\*  19 +term \d+, p\S+ +term 99, p\S+, not on disk +term \d+, p", line)


def test_messages_say_when_they_were_sent_and_came(recorded: Path) -> None:
    found = _lines(recorded / "messages.jsonl")
    votes = [row for row in found if row["kind"] == "VoteRequest"]
    assert {row["from"] for row in votes} <= {"n0", "n1", "n2"}
    came = [row for row in found if row["received"] is not None]
    assert len(came) > len(found) / 2
    assert all(row["received"] > row["sent"] for row in came)


def test_messages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "OTHERS_MAX", 50)
    monkeypatch.setattr(record, "ELECTIONS_MAX", 5)
    record.run_recorded(replace(PLAN, seconds=6.0), tmp_path)
    kinds = [row["kind"] for row in _lines(tmp_path / "messages.jsonl")]
    assert len(kinds) == 55
    assert sum("Vote" in kind or kind == "TimeoutNow" for kind in kinds) == 5
