"""Folders in which something was spoiled: a sentence with its place, a documented exit code.

Every command that reads a folder is asked. What would run again afterwards is left out: it is the
reading that is tried here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.checkers.verdict import Word
from chaos.live.command import chaos
from chaos.live.evidence_files import ENDED, read_ended
from chaos.replay import command
from chaos.report.serve import render_index
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from chaos.sim.world import RunResult
from chaos.tools.exit_codes import USAGE
from tests.chaos.report.folders import all_seen, listed, write_folder

LIVE = (
    *("history.jsonl", "faults.jsonl", "nodes.jsonl", "replicas.json", "copies.json", "env.json"),
    *("zero.json", "cluster/n1/trace.jsonl", "verdict.json", ENDED),
)
SIMULATED = (
    *("history.jsonl", "faults.jsonl", "nodes.jsonl", "messages.jsonl", "replicas.json"),
    *("env.json", "zero.json", "cluster/n1/trace.jsonl", "verdict.json", ENDED),
)
RUBBISH: tuple[Any, ...] = (
    *(float("nan"), float("inf"), -5, -0.5, 1e308, 10**30, 2**63, "", "\ud800", "n0", "live"),
    *([], [[]], ["a"], {}, {"a": []}, None, True, False),
)
Change = Callable[[dict[str, Any]], dict[str, Any]]


def ask(*words: object) -> Result:
    """Any command of `dledger chaos`; it must end as it is documented to."""
    done = CliRunner().invoke(chaos, [str(word) for word in words])
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in {0, 1, 2, USAGE}, done.output
    return done


@pytest.fixture
def older(live: Path) -> Path:
    """As an earlier release left it."""
    (live / ENDED).unlink()
    return live


@pytest.fixture(scope="module")
def result() -> RunResult:
    return Plan(6, 7, 3, 4.0, Profile()).run(6)


@pytest.fixture
def nothing_runs(result: RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay and shrink read their folder and stop there."""
    monkeypatch.setattr(command, "_run", lambda *_: result)
    monkeypatch.setattr(command, "supervise", lambda *_: 0)
    monkeypatch.setattr(command, "shrink_run", lambda *_: None)
    monkeypatch.setattr(
        command, "run_within", lambda *_: subprocess.CompletedProcess([], USAGE, stdout="")
    )


def change_line(path: Path, number: int, change: Change) -> None:
    """Another object in the place of a line, counted from 1."""
    lines = path.read_text().splitlines()
    lines[number - 1] = json.dumps(change(json.loads(lines[number - 1])))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("history.jsonl", {"offset": -4}, "offset is -4"),
        ("history.jsonl", {"offset": -1}, "has no place"),
        ("history.jsonl", {"completed": -1.0}, "ended at -1.0"),
        ("history.jsonl", {"invoked": float("nan")}, "NaN is no number"),
        ("history.jsonl", {"value": "\ud800"}, "is no text"),
        ("history.jsonl", {"kind": []}, "kind is []"),
        ("history.jsonl", {"values": [[-1, "a"]]}, "values is"),
        ("nodes.jsonl", {"time": float("nan")}, "NaN is no number"),
        ("nodes.jsonl", {"term": -1}, "term is -1"),
        ("nodes.jsonl", {"committed": 10**30}, "committed is"),
        ("faults.jsonl", {"nodes": "n0"}, "nodes is 'n0'"),
        ("faults.jsonl", {"ended": 0.5}, "ended at 0.5"),
        ("faults.jsonl", {"cuts": "3"}, "cuts is '3'"),
        ("cluster/n1/trace.jsonl", {"at": None}, "at is None"),
        ("cluster/n1/trace.jsonl", {"life": []}, "life is []"),
    ],
)
def test_a_wrong_field_is_named_with_its_file_and_line(
    older: Path, name: str, changes: dict[str, Any], said: str
) -> None:
    change_line(older / name, 1, lambda row: row | changes)
    done = ask("check", older)
    assert done.exit_code == USAGE
    assert f"{name}, line 1 cannot be read" in done.output
    assert said in done.output


def test_a_missing_field_is_named_with_its_file_and_line(older: Path) -> None:
    change_line(older / "faults.jsonl", 2, lambda row: {"number": row["number"]})
    assert "faults.jsonl, line 2 cannot be read: kind is missing" in ask("check", older).output


def test_bytes_that_are_no_text_are_named_with_their_line(older: Path) -> None:
    path = older / "nodes.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[4] = b"\xff\xfe\x00"
    path.write_bytes(b"\n".join(lines))
    assert "nodes.jsonl, line 5 cannot be read: it is no text" in ask("check", older).output


def test_half_a_line_is_damage_in_a_run_that_ended(older: Path) -> None:
    path = older / "history.jsonl"
    path.write_text(path.read_text()[:-30])
    done = ask("check", older)
    assert done.exit_code == USAGE
    assert "history.jsonl, line 45 cannot be read: it is cut" in done.output


@pytest.mark.parametrize("name", ["env.json", "verdict.json", "replicas.json", "copies.json"])
def test_a_broken_object_is_named_with_its_line(older: Path, name: str) -> None:
    (older / name).write_text('{\n "a": 1,\n rubbish')
    done = ask("check", older)
    assert done.exit_code == USAGE
    assert f"{name}, line 3 cannot be read" in done.output


def test_a_fault_that_nobody_planned_is_named(older: Path) -> None:
    change_line(older / "faults.jsonl", 1, lambda row: row | {"number": 77})
    assert "fault 77, kill, is not in the schedule" in ask("check", older).output


@pytest.mark.parametrize(
    ("name", "then", "lines"),
    [
        ("history.jsonl", {}, 10),
        ("faults.jsonl", {}, 1),
        ("replicas.json", {"replicas": {"n0": 36, "n1": 36, "n2": 36}}, 0),
    ],
)
def test_the_counts_of_an_older_verdict_tell_what_is_missing(
    older: Path, name: str, then: dict[str, Any], lines: int
) -> None:
    said = json.loads((older / "verdict.json").read_text()) | then
    (older / "verdict.json").write_text(json.dumps(said))
    assert ask("check", older).exit_code == 0
    kept = (older / name).read_text().splitlines(keepends=True)[:lines]
    (older / name).write_text("".join(kept) or "{}")
    done = ask("check", older, "-o", "json")
    assert done.exit_code == Word.UNKNOWN.value  # lines are missing: that is not invalid
    found = json.loads(done.stdout)["unknown_because"]
    assert any(reason.startswith(f"{name} has other ") for reason in found)


def test_an_older_run_without_any_log_is_unknown(older: Path) -> None:
    (older / "replicas.json").write_text("{}")
    done = ask("check", older, "-o", "json")
    assert done.exit_code == Word.UNKNOWN.value
    assert "no replica's log was read" in json.loads(done.stdout)["unknown_because"]


def test_a_verdict_that_cannot_be_read_is_told(live: Path) -> None:
    (live / "verdict.json").write_text("{\n rubbish")
    done = ask("check", live, "-o", "json")
    assert done.exit_code == Word.UNKNOWN.value
    (said,) = json.loads(done.stdout)["unknown_because"]
    assert said.startswith("verdict.json, line 2 cannot be read")


def test_an_anomaly_in_altered_evidence_is_shown_and_the_word_is_unknown(live: Path) -> None:
    logs = json.loads((live / "replicas.json").read_text())
    del logs["n1"]["q0"][3]
    (live / "replicas.json").write_text(json.dumps(logs))
    done = ask("check", live, "-o", "json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["verdict"], said["lost"]) == (2, "unknown", 1)
    assert "replicas.json has" in said["unknown_because"][0]
    assert "anomalies in evidence" in said["unknown_because"][-1]


def test_a_folder_in_the_place_of_a_file_is_told(live: Path) -> None:
    (live / "history.jsonl").unlink()
    (live / "history.jsonl").mkdir()
    done = ask("check", live, "-o", "json")
    assert done.exit_code == Word.UNKNOWN.value
    assert json.loads(done.stdout)["unknown_because"][0].startswith("history.jsonl is missing")


@pytest.mark.usefixtures("nothing_runs")
def test_no_other_command_believes_what_is_cut(live: Path) -> None:
    said = json.loads((live / "verdict.json").read_text()) | {"verdict": "valid"}
    (live / "verdict.json").write_text(json.dumps(said))
    assert "<td>valid</td>" in render_index(live.parent)
    (live / "faults.jsonl").write_text("")
    assert "<td>valid</td>" not in render_index(live.parent)
    assert ask("report", live).exit_code == 0
    page = (live / "report.html").read_text()
    assert "<h1>UNKNOWN</h1>" in page
    assert "faults.jsonl has 0 of its 2 lines" in page
    assert ask("porcupine", live).exit_code == Word.UNKNOWN.value


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    "changes",
    [
        *({"seconds": value} for value in ("x", float("nan"), 0, 1e9)),
        *({"nodes": value} for value in (-3, 0, 10**9, "3")),
        *({"seed": value} for value in ([1], 1.5, "x", None)),
        *({"profile": value} for value in ([], {"membership": "yes"}, {"x": True})),
        *({"mutant": 5}, {"kept": 5}, {"kept": ["a"]}, {"salt": 10**9}, {"planned": 1}),
        *({"schedule": 5}, {"schedule": [None]}, {"schedule": [{"number": 0}]}, {"settings": []}),
    ],
)
def test_what_cannot_be_run_again_is_refused_before_it_runs(
    simulated: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    root = tmp_path / "run"
    shutil.copytree(simulated, root)
    assert ask("replay", root).exit_code == 0
    env = json.loads((root / "env.json").read_text())
    (root / "env.json").write_text(json.dumps(env | changes))
    for words in (["replay", root], ["shrink", root]):
        done = ask(*words)
        assert done.exit_code == USAGE
        assert "is no folder of such a run" in done.output


def chances(short: int, count: int) -> list[Any]:
    """Seeds; those from `short` on are in the long layers."""
    long = (pytest.param(seed, marks=pytest.mark.long) for seed in range(short, count))
    return [*range(short), *long]


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("chance", chances(15, 60))
def test_a_live_run_that_is_spoiled(tmp_path: Path, chance: int) -> None:
    """Five places each, by a seed; half of them as an earlier release left the folder."""
    random = Random(chance)
    for number in range(5):
        root = listed(all_seen(write_folder(tmp_path / f"run-{number}")))
        if random.random() < 0.5:
            (root / ENDED).unlink()
        spoil_one(root, LIVE, random)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("chance", chances(5, 20))
def test_a_simulated_run_that_is_spoiled(simulated: Path, tmp_path: Path, chance: int) -> None:
    random = Random(chance)
    for number in range(5):
        root = tmp_path / f"run-{number}"
        shutil.copytree(simulated, root)
        spoil_one(root, SIMULATED, random)


def spoil_one(root: Path, names: tuple[str, ...], random: Random) -> None:
    """Another content in one of its files; then every command is asked."""
    path = root / random.choice([name for name in names if (root / name).exists()])
    before = path.read_bytes()
    path.write_bytes(spoiled(before, random, in_lines=path.suffix == ".jsonl"))
    is_listed = bool((root / ENDED).exists())
    done = ask("check", root, *random.choice([(), ("-o", "json")]))
    if is_listed and path.name != "verdict.json" and not _same(path, before):
        assert done.exit_code == Word.UNKNOWN.value, (path, done.output)
        assert path.name in done.output
    ask("report", root)
    render_index(root.parent)
    ask("replay", root, *random.choice([(), ("--arena", "sim"), ("--arena", "live")]))
    ask("shrink", root)


def _same(path: Path, before: bytes) -> bool:
    """A list that is written otherwise still says the same."""
    if path.name != ENDED:
        return path.read_bytes() == before
    try:
        return bool(read_ended(path.parent) == json.loads(before))
    except ValueError:
        return False


def spoiled(data: bytes, random: Random, *, in_lines: bool) -> bytes:
    """Other bytes, some of them gone, or another value at one place of one line."""
    at = random.randrange(len(data))
    way = random.random()
    if way < 0.2:
        return data[:at] + random.randbytes(random.randrange(4)) + data[at + 2 :]
    if way < 0.35:
        return data[:at]
    lines = data.decode().splitlines() if in_lines else [data.decode()]
    number = random.randrange(len(lines))
    if way < 0.45:
        lines[number] = random.choice(["", "5", "[]", "null", "[" * 20_000, '{"a":', *lines])
    else:
        value = json.loads(lines[number])
        put(value, random)
        lines[number] = json.dumps(value)
    return ("\n".join(lines) + "\n").encode()


def put(value: Any, random: Random) -> None:
    """Rubbish at a place below `value`, or a key less."""
    while True:  # each round is one level deeper
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = random.choice(keys)
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.3:
            break
        value = inner
    if isinstance(value, dict) and random.random() < 0.3:
        del value[key]
    else:
        value[key] = random.choice(RUBBISH)
