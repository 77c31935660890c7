"""`dledger bench spark-jobs` in small: made input is real input, and faults in it are named."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from commitlog.store.reader import StoreReader
from pipeline.bench import jobs, made
from pipeline.bench.everything import rows
from pipeline.bench.jobs import Options, run
from pipeline.options import LogOptions
from pipeline.rawlog.plan import plan


def test_a_made_log_is_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several files, read by the reader that knows nothing of it."""
    monkeypatch.setattr(made, "FILE_SIZE", 3 << 19)
    size = made.make_log(tmp_path, 2 * made.BLOCK_ENTRIES, body_size=100)
    assert size > made.FILE_SIZE
    with StoreReader(tmp_path) as reader:
        items = list(reader.items())
        assert not reader.findings
    assert [item.header.sequence for item in items if item.header] == list(range(2 * 4096))
    assert all(piece.index for piece in plan(LogOptions(tmp_path)))
    messages = [item.message for item in items if item.message is not None]
    assert [m.queue_offset for m in messages[:8]] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert messages[-1].queue_offset == 2047


def test_every_job_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "FILE_SIZE", 3 << 20)
    found = run(Options(entries=4096, operations=8_000, repeats=1, folder=str(tmp_path)))
    assert found["faults"] == []
    assert found["entries"] == 4096
    names = ("archive_bytes", "audit_entries", "rebuild_entries", "history_operations")
    assert set(found["best"]) == {f"{name}_per_s" for name in names}
    assert all(found["best"][name] >= found[name] > 0 for name in found["best"])
    assert set(found["bars"]) == {"archive_met", "audit_met", "history_met", "faults_named_met"}
    assert jobs.ARCHIVE_BAR == 200e6
    assert len(rows("spark-jobs", found)) == 4
