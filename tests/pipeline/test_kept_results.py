"""Rows of long runs of the sink count for the code that they were made on, and for no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.counts import code_key

from .spark.kept_results import ROOTS, results_file


def test_results_of_other_code_are_in_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLEDGER_EVIDENCE", str(tmp_path / "kept"))
    now = results_file("seeds")
    assert now == results_file("seeds")
    assert now.parent.is_dir()
    assert "pipeline.sink.commit" in code_key.imported_by(ROOTS)
    read = Path.read_text

    def changed(path: Path, encoding: str | None = None) -> str:
        return read(path, encoding) + ("\n_MORE = 1\n" if path.name == "commit.py" else "")

    monkeypatch.setattr(Path, "read_text", changed)
    assert results_file("seeds") != now
