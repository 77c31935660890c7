"""The job: from a history file to a verdict, queue by queue, wherever its tasks run."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from chaos.checkers.verdict import Word
from chaos.history import Kind, Operation, Outcome
from pipeline.jobs.history import recorded as module
from pipeline.jobs.history.check import check
from pipeline.jobs.history.files import log_table, write_log
from pipeline.jobs.history.recorded import convert
from pipeline.jobs.workers import Processes


def history(queues: int, count: int) -> list[Operation]:
    return [
        Operation(f"p{q}", Kind.APPEND, f"{q}-{n}", n, n + 0.5, Outcome.OK, n, f"t/{q}")
        for n in range(count)
        for q in range(queues)
    ]


def test_a_verdict_over_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_OPERATIONS", 100)
    operations = history(3, 200)
    assert convert((op.to_json() + "\n" for op in operations), tmp_path) == 600
    for replica in ("n0", "n1"):
        for queue in range(3):
            log = [(n, f"{queue}-{n}") for n in range(200) if (queue, n) != (1, 150)]
            for part in range(2):
                half = log[part * 100 : (part + 1) * 100]
                write_log(tmp_path, replica, f"t/{queue}", log_table(half), part)
    for workers in (None, Processes(2)):
        verdict = check(tmp_path, workers=workers)
        assert verdict.word is Word.INVALID
        assert (verdict.operations, verdict.acked) == (600, 600)
        assert (verdict.lost, verdict.doubled, verdict.reordered) == (1, 0, 0)
        assert {queue.log: dict(queue.names) for queue in verdict.queues if queue.names} == {
            "t/1": {"lost-middle": 1}
        }


def test_valid_and_unknown(tmp_path: Path) -> None:
    assert check(tmp_path).word is Word.UNKNOWN
    convert((op.to_json() for op in history(1, 10)), tmp_path)
    write_log(tmp_path, "n0", "t/0", log_table((n, f"0-{n}") for n in range(10)))
    assert check(tmp_path).word is Word.VALID
    assert check(tmp_path, acked_min=11).word is Word.UNKNOWN


def test_lines_that_are_no_operations(tmp_path: Path) -> None:
    with pytest.raises((ValueError, KeyError)):
        convert(['{"process": "p"}'], tmp_path)
