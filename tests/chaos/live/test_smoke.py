"""A short live run end to end, by the command that people use, and what a run says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.history import Kind, Outcome
from chaos.live.command import chaos
from chaos.live.judgement import judge_run
from chaos.live.node_trace import read_traces
from chaos.report.again import read_evidence
from tests.chaos.report.folders import listed
from tests.waiting import limit

ROOT = Path(__file__).parents[3]
SMOKE = ROOT / "conf" / "chaos-smoke.toml"
SENDS = ("append", "delay", "half", "half-commit")
DLEDGER = Path(sys.executable).parent / "dledger"


def dledger(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(DLEDGER), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=limit(110),
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
    )


def _sessions_know_their_own(out: Path) -> None:
    """A client that sends and reads: whatever it was told of its own sends, it must read."""
    evidence, limits = read_evidence(out)
    of_session = [op for op in evidence.history if op.process.startswith("s")]
    done = Counter(op.kind for op in of_session if op.outcome is Outcome.OK)
    assert min(done[Kind.APPEND], done[Kind.READ]) > 3
    sent = next(op for op in of_session if op.kind is Kind.APPEND and op.outcome is Outcome.OK)
    blind = replace(sent, kind=Kind.READ, value="", offset=0, position=-1)
    blind = replace(blind, invoked=sent.completed + 1e-4, completed=sent.completed + 2e-4)
    found = judge_run(replace(evidence, history=[*evidence.history, blind]), limits)
    assert "nonmonotonic-read" in {one.name for one in found.verdict.anomalies}


def _leaders_are_compared(out: Path) -> None:
    evidence, limits = read_evidence(out)
    elected = [one for one in evidence.told if one.links is not None]
    assert elected
    other = [
        one
        if one.links is None
        else one._replace(links=one.links._replace(data=bytes(len(one.links.data))))
        for one in evidence.told
    ]
    found = judge_run(replace(evidence, told=other), limits)
    assert {one.name for one in found.verdict.anomalies} == {"leader-completeness"}


def test_a_short_run_is_valid_and_leaves_its_folder(tmp_path: Path) -> None:
    out, patient = tmp_path / "run", tmp_path / "patient.toml"
    # What is lost is judged, and not how quick it was: on a busy machine all of it takes longer.
    limits = f"gap_seconds_max = {limit(60)}\nconverge_seconds_max = {limit(60)}"
    patient.write_text(SMOKE.read_text("utf-8").replace("gap_seconds_max = 10.0", limits), "utf-8")
    faults = "kill,pause,partition,reset,corrupt"
    done = dledger(
        *("chaos", "run", "--config", patient, "--seconds", "11", "--seed", "5"),
        *("--faults", faults, "--out", out, "-o", "json"),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert said["verdict"] == "valid"
    assert (said["lost"], said["doubled"], said["reordered"], said["violations"]) == (0, 0, 0, 0)
    assert said["acked"] > 100
    for deferred in (said["delayed"], said["transactional"]):
        assert deferred["sent"] >= deferred["arrived"] > 5
    assert said["delayed"]["open"] == said["transactional"]["open"] == 0
    assert said["faults"]["carried_out"] >= said["faults"]["took_effect"] > 0
    assert json.loads((out / "verdict.json").read_text()) == said
    faults_seen = [json.loads(line) for line in (out / "faults.jsonl").read_text().splitlines()]
    assert any(one["took_effect"] and one["seen"] for one in faults_seen)
    assert len((out / "history.jsonl").read_text().splitlines()) > 100
    assert json.loads((out / "env.json").read_text())["seed"] == 5
    assert len(set(said["replicas"].values())) == 1
    compared = said["copies"]
    assert len(compared["chains"]) == 3
    assert len(set(compared["chains"].values())) == 1
    assert compared["bytes"] > 10_000
    assert said["converged_seconds"] is not None
    assert said["acked_deleted_unread"] == 0
    looked_for = {"vote-changed", "never-read", "poll-skip", "offset-ahead", "bytes-differ"}
    looked_for |= {"delayed-lost", "committed-lost", "stale-read"}
    assert not looked_for & said["not_checked"].keys()
    looks = [json.loads(line) for line in (out / "nodes.jsonl").read_text().splitlines()]
    assert {row["vote"] for row in looks if row["role"] == "leader"} <= {"n0", "n1", "n2"}
    _tail_read_all(out)
    _sessions_know_their_own(out)
    _leaders_are_compared(out)
    assert not list((out / "cluster").glob("*/data"))  # a valid run needs no second look
    assert (out / "cluster" / "n0" / "log.txt").exists()
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    told = read_traces(out)  # by the nodes themselves, as it happened
    assert {row["node"] for row in told} == {"n0", "n1", "n2"}
    assert {"leader", "follower"} <= {row["role"] for row in told}
    assert max(row["committed"] for row in told) > 100
    assert -5 < told[0]["time"] < said["load_seconds"]

    again = dledger("chaos", "check", out, "-o", "json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["acked"] == said["acked"]
    _lose_one(out)
    _change_one_chunk(out)
    changed = CliRunner().invoke(chaos, ["check", str(out), "-o", "json"])
    assert changed.exit_code == 2, "evidence that was changed proves nothing"
    listed(out)
    worse = CliRunner().invoke(chaos, ["check", str(out), "-o", "json"])
    assert worse.exit_code == 1
    assert json.loads(worse.stdout)["lost"] == 1
    assert "bytes-differ" in {one["name"] for one in json.loads(worse.stdout)["anomalies"]}


def _tail_read_all(out: Path) -> None:
    """The one reader that follows every queue was shown every message that stands."""
    history = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    got = {
        (one["log"], place)
        for one in history
        if one["process"] == "tail"
        for place, _ in one.get("values", ())
    }
    replicas = json.loads((out / "replicas.json").read_text())
    queues = {queue: log for queue, log in replicas["n0"].items() if queue.startswith("q")}
    assert got == {(queue, at) for queue, log in queues.items() for at, _ in log}


def _change_one_chunk(out: Path) -> None:
    """As if a byte of one replica's log were another one."""
    copies = json.loads((out / "copies.json").read_text())
    region = copies["nodes"]["n1"]["regions"]["log"]
    region["chunks"] = "00" * 16 + region["chunks"][32:]
    (out / "copies.json").write_text(json.dumps(copies))


def _lose_one(out: Path) -> None:
    """Take the last acknowledged message of one queue out of every replica's log."""
    replicas = json.loads((out / "replicas.json").read_text())
    queue = max(replicas["n0"], key=lambda name: len(replicas["n0"][name]))
    for node in replicas:
        replicas[node][queue].pop()
    (out / "replicas.json").write_text(json.dumps(replicas))
    history = (out / "history.jsonl").read_text().splitlines()
    kept = [line for line in history if json.loads(line)["kind"] in SENDS]
    (out / "history.jsonl").write_text("\n".join(kept) + "\n")


def test_the_catalogue_is_listed_with_reasons() -> None:
    done = CliRunner().invoke(chaos, ["faults", "-o", "json"])
    assert done.exit_code == 0
    rows = json.loads(done.stdout)["faults"]
    assert [row["number"] for row in rows] == list(range(1, 39))
    assert all(row["available"] or row["reason"].startswith("needs ") for row in rows)
    assert {"kill", "partition", "failpoint"} <= {row["name"] for row in rows if row["available"]}


WRONG = [
    ("run", "--faults", "tea"),
    ("run", "--tea"),
    ("run", "--seconds", "1"),
    ("check", "."),
    ("tea",),
]


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_usage_ends_with_254(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(chaos, arguments)
    assert done.exit_code == 254
    assert "Error: " in done.stderr


def test_wrong_usage_of_the_program_ends_with_254() -> None:
    done = dledger("chaos", *WRONG[0])
    assert done.returncode == 254
    assert "Error: " in done.stderr
