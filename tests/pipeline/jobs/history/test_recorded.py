"""A run's folder gives all that its history must be judged by; a file alone gives the history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.checkers.levels import Blackout
from chaos.checkers.queues import judge_queues
from chaos.checkers.verdict import Word
from chaos.faults import Target
from chaos.history import Level
from chaos.live.nemesis import Happened
from chaos.live.outages import blackouts_of
from chaos.report.again import read_evidence
from chaos.schedule import Planned
from pipeline.jobs.commands import pipeline
from pipeline.jobs.history import recorded
from pipeline.jobs.history.check import check
from pipeline.jobs.history.circumstances import (
    Circumstances,
    CircumstancesError,
    read_circumstances,
    write_circumstances,
)
from pipeline.jobs.history.columns import ADDED_COLUMNS
from pipeline.jobs.history.files import history_table, log_table, write_history, write_log
from pipeline.jobs.history.recorded import circumstances_of, convert, convert_run
from pipeline.jobs.workers import Processes
from tests.chaos.checkers.golden_cases import Case, cases
from tests.chaos.report.folders import COUNT, faults, history, replicas, write_folder
from tests.pipeline.jobs.history.queues import circumstances_of as circumstances_of_case
from tests.pipeline.jobs.history.queues import of_the_checkers

KINDS = ("power-loss", "power-all", "kill", "pause", "latency", "client")
CUT = Blackout(9.9, 10.0)


def golden(name: str) -> Case:
    (found,) = (case for case in cases() if case.name == name)
    return found


def write_case(case: Case, root: Path) -> None:
    """By files, as a run's are, but for those that tell of faults."""
    convert((op.to_json() for op in case.history), root, circumstances_of_case(case))
    for replica, logs in case.replicas.items():
        for queue, log in logs.items():
            write_log(root, replica, queue, log_table(log))


def live_run(root: Path) -> Path:
    """The first four messages were deleted, the last one was in memory when the power went."""
    told = {f"p{n % 2}-{n}": n * 100 for n in range(COUNT)}
    last = f"p1-{COUNT - 1}"
    operations = [replace(op, position=told.get(op.value, -1)) for op in history()]
    operations = [  # nobody was shown it
        replace(op, values=tuple(row for row in op.values if row[1] != last)) for op in operations
    ]
    operations = [
        replace(op, level=Level.IN_MEMORY) if op.value == last else op for op in operations
    ]
    logs = {
        node: {
            queue: [row for row in log if told[row[1]] >= 400 and row[1] != last]
            for queue, log in queues.items()
        }
        for node, queues in replicas().items()
    }
    write_folder(root, logs=logs)
    (root / "history.jsonl").write_text("".join(op.to_json() + "\n" for op in operations), "utf-8")
    edit(root / "verdict.json", log_begins=400)
    everybody = {"kind": "power-all", "nodes": ["n0", "n1", "n2"], "power_gone": list(CUT)}
    rows = [faults()[0], faults()[1] | everybody | {"began": 9.8, "ended": 10.5}]
    (root / "faults.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return root


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def test_a_folder_is_judged_as_the_live_judge_does(tmp_path: Path) -> None:
    run = live_run(tmp_path / "run")
    assert convert_run(run, tmp_path / "p") == len(history())
    assert read_circumstances(tmp_path / "p") == Circumstances(400, (CUT,))
    found = check(tmp_path / "p")
    evidence, _ = read_evidence(run)
    other = judge_queues(
        evidence.history,
        evidence.replicas,
        blackouts=blackouts_of(evidence.happened, evidence.nodes),
        begins=evidence.begins,
    )
    assert (found.word, found.acked, found.taken_back) == (Word.VALID, 36, 1)
    assert (other.word, other.acked, other.taken_back) == (Word.VALID, 36, 1)
    # Without what the folder tells, both are faults; the first had been shown, too.
    write_circumstances(tmp_path / "p", Circumstances())
    names = {"lost-prefix", "lost-postfix", "precommitted-read"}
    assert set(check(tmp_path / "p").names) == names


def test_blackouts_are_those_of_the_live_judge(tmp_path: Path) -> None:
    write_folder(tmp_path / "run")
    counts = set()
    for seed in range(100):
        happened = some_faults(Random(seed))
        lines = [json.dumps(one.to_fields()) + "\n" for one in happened]
        (tmp_path / "run" / "faults.jsonl").write_text("".join(lines), "utf-8")
        expected = tuple(blackouts_of(happened, 3))
        assert circumstances_of(tmp_path / "run").blackouts == expected, happened
        counts.add(len(expected))
    assert counts >= {0, 1, 2}


def some_faults(random: Random) -> list[Happened]:
    found = []
    for number in range(random.randrange(6)):
        kind, began = random.choice(KINDS), round(random.uniform(0, 20), 3)
        nodes = tuple(random.sample(["n0", "n1", "n2"], 3 if kind == "power-all" else 1))
        cut = {"power_gone": [began, began + 0.2]} if kind.startswith("power") else {}
        ended = began + 1 if random.random() < 0.9 else None
        planned = Planned(number, began, kind, Target.RANDOM, 1.0, 7)
        found.append(Happened(planned, nodes, began, ended, "seen", 0.5, "", dict(cut)))
    return found


@pytest.mark.parametrize(
    "name",
    [
        "one-queue-loses-its-end-the-other-does-not",
        "gone-though-another-queue-has-what-came-later",
        "deleted-and-polled-before",
    ],
)
def test_by_files_and_in_processes(tmp_path: Path, name: str) -> None:
    case = golden(name)
    write_case(case, tmp_path)
    in_processes = name.startswith("gone")  # one of them: processes take a while to start
    found = check(tmp_path, workers=Processes(2) if in_processes else None)
    assert (set(found.names), found.acked, found.taken_back) == of_the_checkers(case)


def test_levels_and_positions_from_the_middle_of_a_history_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "CHUNK_OPERATIONS", 1)  # parts with and without them
    for name in ("taken-back-by-a-blackout", "lost-where-nobody-told-the-address"):
        case = golden(name)
        write_case(case, tmp_path / name)
        assert len(list((tmp_path / name).glob("history/*/*"))) == 2
        found = check(tmp_path / name)
        assert (set(found.names), found.acked, found.taken_back) == of_the_checkers(case)


def test_parquet_of_before_there_were_levels_and_positions(tmp_path: Path) -> None:
    case = golden("taken-back-by-a-blackout")
    table = history_table(case.history)
    write_history(tmp_path, "", table)
    write_log(tmp_path, "n1", "", log_table(case.replicas["n1"][""]))
    write_circumstances(tmp_path, Circumstances(100, tuple(case.blackouts)))
    assert check(tmp_path).word is Word.VALID
    (path,) = tmp_path.glob("history/*/*.parquet")
    pq.write_table(table.drop_columns(sorted(ADDED_COLUMNS)), path)
    assert dict(check(tmp_path).names) == {"lost-postfix": 1}, "all was on disk"
    pq.write_table(table.drop_columns(["outcome"]), path)
    with pytest.raises(KeyError, match="outcome"):
        check(tmp_path)


def test_a_level_that_is_none(tmp_path: Path) -> None:
    table = history_table([golden("in-memory-and-kept").history[0]])
    at = table.schema.get_field_index("level")
    write_history(tmp_path, "", table.set_column(at, "level", pa.array(["in-the-cloud"])))
    with pytest.raises(ValueError, match="'in-the-cloud' is none of majority-on-disk"):
        check(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"begins": "x"}', '{"blackouts": [[1]]}', "{}}"])
def test_circumstances_that_cannot_be_understood(tmp_path: Path, text: str) -> None:
    (tmp_path / "circumstances.json").write_text(text)
    with pytest.raises(CircumstancesError, match="convert the run again, or correct it"):
        check(tmp_path)


def test_a_history_file_tells_of_nothing_else(tmp_path: Path) -> None:
    write_circumstances(tmp_path, Circumstances(7, (CUT,)))
    assert convert([], tmp_path) == 0
    assert read_circumstances(tmp_path) == Circumstances(), "those were of another history"


def test_commands(tmp_path: Path) -> None:
    run, root = live_run(tmp_path / "run"), tmp_path / "p"
    assert call("convert", run, root) == (0, f"{len(history())} operations\n")
    code, text = call("history", root)
    assert (code, text.splitlines()[1]) == (0, "taken back 1")
    code, text = call("history", root, "-o", "json")
    assert (code, json.loads(text)["taken_back"]) == (0, 1)
    lines = (run / "history.jsonl").read_text("utf-8")
    assert call("convert", "-", tmp_path / "q", typed=lines)[0] == 0
    (run / "faults.jsonl").unlink()
    code, text = call("convert", run, tmp_path / "r")
    assert (code, "is not the folder of a finished run" in text) == (2, True)
    assert not (tmp_path / "r").exists()


def call(*words: object, typed: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(pipeline, [str(word) for word in words], input=typed)
    return done.exit_code, done.output
